"""What the tests of the Python package share. Importing it goes on in a Python with torch: this one, or the one that
STARLING_PYTORCH names; where there is none, the test is skipped."""

import importlib.util
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(os.environ.get('STARLING_ROOT', pathlib.Path(__file__).resolve().parents[3]))
PACKAGE = str(ROOT / 'agent/attach/python')
sys.path[:0] = [str(ROOT / 'tests/e2e'), PACKAGE]
sys.dont_write_bytecode = True

if importlib.util.find_spec('torch') is None:
  named = os.environ.get('STARLING_PYTORCH')
  if named and os.environ.get('STARLING_PYTORCH_TRIED') is None:
    os.execve(named, [named, *sys.argv], {**os.environ, 'STARLING_PYTORCH_TRIED': '1'})
  print('1..0 # SKIP no torch here: tools/setup fetches it with build/deps, or STARLING_PYTORCH=PYTHON names one')
  sys.exit(0)

import swarm as processes  # noqa: E402

PATIENCE = 180  # seconds; on a busy machine a Python takes a minute to import torch


PATHS = os.pathsep.join([PACKAGE, str(pathlib.Path(__file__).resolve().parent), str(ROOT / 'tests/e2e')])
ENVIRONMENT = {'PYTHONPATH': PATHS, 'PYTHONDONTWRITEBYTECODE': '1', 'OMP_NUM_THREADS': '1'}


class Case(processes.Case):
  def python(self, path, *arguments, **options):
    """A Python of its own, in this test's folder."""
    process = processes.Process(
      self.folder / f'process-{len(self.processes)}',
      [path, *arguments],
      program=sys.executable,
      **{'working': self.folder, 'environment': ENVIRONMENT, **options},
    )
    self.processes.append(process)
    return process

  def wait_until(self, condition, what, patience=PATIENCE):
    until = time.monotonic() + patience
    while not condition():
      logs = ''.join(f'\n--- {process.name}\n{process.log()[-3000:]}' for process in self.processes)
      self.assertLess(time.monotonic(), until, f'{what} never came{logs}')
      processes.pause(0.02)

  def ends(self, process, status=0, patience=PATIENCE):
    self.wait_until(lambda: not process.running(), f'the end of {process.name}', patience)
    self.assertEqual(process.child.returncode, status, process.log())
