"""The Python package and its examples keep to the syntax of the oldest and of each later Python that a wheel is for."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
VERSIONS = [(3, minor) for minor in range(9, 14)]


def refused(text, version):
  try:
    ast.parse(text, feature_version=version)
  except SyntaxError as error:
    return f'line {error.lineno}: {error.msg}'
  return ''


assert refused('match 1:\n  case 1: pass', (3, 9)), 'a newer syntax must be noticed'
assert "'>= 3.9'" in (ROOT / 'pyproject.toml').read_text()
paths = [*(ROOT / 'agent/attach/python').rglob('*.py'), *(ROOT / 'agent/attach/examples').rglob('*.py')]
assert len(paths) > 5, paths
found = [(str(path), version, refused(path.read_text(), version)) for path in paths for version in VERSIONS]
assert not [one for one in found if one[2]], [one for one in found if one[2]]
