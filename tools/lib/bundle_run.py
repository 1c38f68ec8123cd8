#!/usr/bin/env python3
"""Runs what this bundle holds beside the PyTorch of this machine's python3:

  run starling ARGUMENTS...   the program
  run tests [SUITE]           the test programs (of one suite: run tests gpu), closing with `N passed, N failed`
  run device PAGE             all that needs a GPU, tests first; a table of what came of it is written to PAGE
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

BUNDLE = pathlib.Path(__file__).resolve().parent


def torch_folder():
  """The installed PyTorch's folder; found without importing it, which takes seconds."""
  wanted = (BUNDLE / 'torch_version').read_text().strip()
  spec = importlib.util.find_spec('torch')
  if spec is None or spec.origin is None:
    sys.exit(f'run: {sys.executable} has no torch; install it: pip install torch=={wanted}')
  folder = pathlib.Path(spec.origin).parent
  found = re.search(r"__version__ = '([^'+]*)", (folder / 'version.py').read_text())
  if not found or found[1] != wanted:
    sys.exit(f'run: this bundle was built for torch {wanted}, and {folder} holds {found and found[1]}: '
             f'pip install torch=={wanted}, or bundle again from a build beside that version')
  return folder


def environment():
  paths = [str(BUNDLE / 'lib'), str(torch_folder() / 'lib'), os.environ.get('LD_LIBRARY_PATH', '')]
  return dict(os.environ, LD_LIBRARY_PATH=':'.join(path for path in paths if path))


def count_cases(report):
  """(failed, skipped, passed) cases of one program, from GoogleTest's own report."""
  failed = skipped = passed = 0
  for case in xml.parse(report).iter('testcase'):
    if case.find('failure') is not None:
      failed += 1
    elif case.find('skipped') is not None or case.get('status') == 'notrun':
      skipped += 1
    else:
      passed += 1
  return failed, skipped, passed


def run_tests(suite, must_run=False):
  env = environment()
  report = BUNDLE / 'report.xml'
  totals = [0, 0, 0]
  for line in (BUNDLE / 'tests.list').read_text().splitlines():
    suites, seconds, program, *arguments = line.split('\t')
    if suite and suite not in suites.split(','):
      continue
    report.unlink(missing_ok=True)
    command = [str(BUNDLE / 'tests' / program), *arguments, f'--gtest_output=xml:{report}', '--gtest_brief=1']
    print(f'== {program}', flush=True)
    try:
      code = subprocess.run(command, env=env, cwd=BUNDLE, timeout=int(seconds), stdin=subprocess.DEVNULL).returncode
    except subprocess.TimeoutExpired:
      print(f'{program}: killed after {seconds} s')
      code = 1
    counts = count_cases(report) if report.exists() else (0, 0, 0)
    if code != 0 and counts[0] == 0:   # crashed, hung, or could not start
      print(f'{program}: ended with {code} and no failed case')
      counts = (1, *counts[1:])
    totals = [total + count for total, count in zip(totals, counts)]
  failed, skipped, passed = totals
  if not any(totals):
    print(f'no test of suite {suite} in this bundle' if suite else 'no tests in this bundle')
    failed = 1
  print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
  return 1 if failed or (must_run and not passed) else 0   # tests of a GPU skip themselves where CUDA finds none


def gpu_names():
  """The GPUs of this machine, one a line; ends the program where there are none."""
  if shutil.which('nvidia-smi') is None:
    sys.exit('run: no device here: nvidia-smi is not installed, so there is no NVIDIA driver; nothing was run')
  found = subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader'],
                         capture_output=True, text=True)
  names = found.stdout.strip()
  if found.returncode != 0 or not names:
    sys.exit(f'run: no device here: nvidia-smi lists none ({(names or found.stderr).strip()}); nothing was run')
  return names


def check_kernels(tool):
  """The twins' tests under one of compute-sanitizer's tools; None where it is not installed."""
  sanitizer = shutil.which('compute-sanitizer')
  if sanitizer is None:
    print('compute-sanitizer is not installed: not run (pip install nvidia-cuda-sanitizer-api)')
    return None
  programs = [line.split('\t')[2] for line in (BUNDLE / 'tests.list').read_text().splitlines()]
  program = next((name for name in programs if name.endswith('kernels_cuda_twins_test')), None)
  if program is None:
    print('this bundle was built without nvcc: its tests of CUDA kernels are missing')
    return 1
  return subprocess.run([sanitizer, '--tool', tool, '--error-exitcode', '1', BUNDLE / 'tests' / program,
                         '--gtest_brief=1'], env=environment(), cwd=BUNDLE, stdin=subprocess.DEVNULL).returncode


def run_swarm():
  command = [BUNDLE / 'starling', 'swarm', '--agents', '2', '--config', 'configs/digits.yaml', '--out', 'device_swarm',
             '--set', 'agent.device=cuda']
  return subprocess.run(command, env=environment(), cwd=BUNDLE, stdin=subprocess.DEVNULL).returncode


def run_device(page):
  names = gpu_names()
  # Tests of a GPU skip themselves where CUDA finds none.
  steps = [('tests of suite gpu', lambda: run_tests('gpu', must_run=True)),
           ('memcheck', lambda: check_kernels('memcheck')), ('racecheck', lambda: check_kernels('racecheck')),
           ('two agents on the GPU learn digits', run_swarm)]
  rows = ['# On a device', '', *names.splitlines(), '', '| step | result | seconds |', '|---|---|---|']
  failed = 0
  for what, step in steps:
    print(f'== {what}', flush=True)
    start = time.monotonic()
    code = step()
    failed += bool(code)
    result = 'not run' if code is None else f'failed ({code})' if code else 'passed'
    rows.append(f'| {what} | {result} | {time.monotonic() - start:.0f} |')
    page.write_text('\n'.join(rows) + '\n')   # after each step: a later one may hang
  print(page.read_text() + f'\n{page}')
  return 1 if failed else 0


def main(arguments):
  if arguments[:1] == ['starling']:
    os.execve(BUNDLE / 'starling', ['starling', *arguments[1:]], environment())
  if arguments[:1] == ['tests'] and len(arguments) <= 2:
    return run_tests(arguments[1] if len(arguments) == 2 else '')
  if arguments[:1] == ['device'] and len(arguments) == 2:
    return run_device(pathlib.Path(arguments[1]).resolve())
  sys.exit(__doc__)


sys.exit(main(sys.argv[1:]))
