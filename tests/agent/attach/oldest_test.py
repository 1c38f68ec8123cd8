"""The tests of the Python package with the oldest torch that the wheel is for: pip fetches 2 GB."""

import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGES = ['torch==2.0.1', 'numpy<2', 'safetensors']

if sys.version_info >= (3, 12):
  print(f'1..0 # SKIP {PACKAGES[0]} is not for Python {sys.version_info.major}.{sys.version_info.minor}')
  sys.exit(0)
with tempfile.TemporaryDirectory() as folder:
  subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
  python = str(pathlib.Path(folder) / 'bin/python')
  subprocess.run([python, '-m', 'pip', 'install', '-q', *PACKAGES], check=True)
  tests = pathlib.Path(__file__).resolve().parent / 'python_test.py'
  sys.exit(subprocess.run([python, tests], env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'}).returncode)
