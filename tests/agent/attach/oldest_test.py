"""The tests of the Python package with the oldest torch that the wheel is for: pip fetches 2 GB."""

import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGES = ['torch==2.0.1', 'numpy<2', 'safetensors']

with tempfile.TemporaryDirectory() as folder:
  subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
  python = str(pathlib.Path(folder) / 'bin/python')
  installed = subprocess.run([python, '-m', 'pip', 'install', '-q', *PACKAGES], capture_output=True, text=True)
  if installed.returncode != 0:
    print(f'1..0 # SKIP pip cannot install {" ".join(PACKAGES)} here: {installed.stderr.strip()[-300:]!r}')
    sys.exit(0)
  tests = pathlib.Path(__file__).resolve().parent / 'python_test.py'
  sys.exit(subprocess.run([python, tests], env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'}).returncode)
