#!/usr/bin/env python3
"""Runs what this bundle holds beside the PyTorch of this machine's python3:

  run starling ARGUMENTS...   the program
  run tests [SUITE]           the test programs (of one suite: run tests gpu), closing with `N passed, N failed`
  run device PAGE             all that needs a GPU, tests first, in at most 8 minutes; PAGE tells what came of it

Ends with 0 if all went well, 1 if something failed, 2 if there is no GPU to run `device` on.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

BUNDLE = pathlib.Path(__file__).resolve().parent
NO_DEVICE = 2
DEVICE_SECONDS = 480  # all of `device`
BENCH_ELEMENTS = 64 << 20  # far beyond any cache of a GPU


def torch_folder():
  """The installed PyTorch's folder; found without importing it, which takes seconds."""
  wanted = (BUNDLE / 'torch_version').read_text().strip()
  spec = importlib.util.find_spec('torch')
  if spec is None or spec.origin is None:
    sys.exit(f'run: {sys.executable} has no torch; install it: pip install torch=={wanted}')
  folder = pathlib.Path(spec.origin).parent
  found = re.search(r"__version__ = '([^'+]*)", (folder / 'version.py').read_text())
  if not found or found[1] != wanted:
    sys.exit(
      f'run: this bundle was built for torch {wanted}, and {folder} holds {found and found[1]}: '
      f'pip install torch=={wanted}, or bundle again from a build beside that version'
    )
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


def run_tests(suite, must_run=False, limit=None):
  env = environment()
  end = None if limit is None else time.monotonic() + limit
  report = BUNDLE / 'report.xml'
  totals = [0, 0, 0]
  for line in (BUNDLE / 'tests.list').read_text().splitlines():
    suites, seconds, program, *arguments = line.split('\t')
    if suite and suite not in suites.split(','):
      continue
    report.unlink(missing_ok=True)
    command = [str(BUNDLE / 'tests' / program), *arguments, f'--gtest_output=xml:{report}', '--gtest_brief=1']
    print(f'== {program}', flush=True)
    allowed = int(seconds) if end is None else max(1, min(int(seconds), end - time.monotonic()))
    try:
      code = subprocess.run(command, env=env, cwd=BUNDLE, timeout=allowed, stdin=subprocess.DEVNULL).returncode
    except subprocess.TimeoutExpired:
      print(f'{program}: killed after {allowed:.0f} s')
      code = 1
    counts = count_cases(report) if report.exists() else (0, 0, 0)
    if code != 0 and counts[0] == 0:  # crashed, hung, or could not start
      print(f'{program}: ended with {code} and no failed case')
      counts = (1, *counts[1:])
    totals = [total + count for total, count in zip(totals, counts)]
  failed, skipped, passed = totals
  if not any(totals):
    print(f'no test of suite {suite} in this bundle' if suite else 'no tests in this bundle')
    failed = 1
  print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
  return 1 if failed or (must_run and not passed) else 0  # tests of a GPU skip themselves where CUDA finds none


def gpu_names():
  """The GPUs of this machine, one a line; ends the program where there are none."""

  def end(why):
    print(f'run: no device here: {why}; nothing was run', file=sys.stderr)
    sys.exit(NO_DEVICE)

  if shutil.which('nvidia-smi') is None:
    end('nvidia-smi is not installed, so there is no NVIDIA driver')
  found = subprocess.run(
    ['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader'], capture_output=True, text=True
  )
  names = found.stdout.strip()
  if found.returncode != 0 or not names:
    end(f'nvidia-smi lists none ({(names or found.stderr).strip()})')
  return names


class Failed(Exception):
  """A step that went wrong, in a few words for the table; and what it has for the page all the same."""

  def __init__(self, why, text=None):
    super().__init__(why)
    self.text = text


class NotRun(Exception):
  """A step that could not be tried, and why."""


def call(command, limit, **options):
  """The command's result, which ends with its time at the latest."""
  try:
    return subprocess.run(command, env=environment(), cwd=BUNDLE, stdin=subprocess.DEVNULL, timeout=limit, **options)
  except subprocess.TimeoutExpired:
    raise Failed(f'stopped after {limit:.0f} s') from None


def must_pass(command, limit):
  code = call(command, limit).returncode
  if code != 0:
    raise Failed(f'ended with {code}')


def built_with_cuda(name):
  """A program that is only in bundles built with nvcc."""
  found = [path for path in (BUNDLE / 'tests').iterdir() if path.name.endswith(name)]
  if not found:
    raise Failed('this bundle was built without nvcc')
  return found[0]


def sanitizer():
  """compute-sanitizer: of the machine, or of PyPI's package, which puts it beside torch's own libraries."""
  package = importlib.util.find_spec('nvidia')
  folders = package.submodule_search_locations if package else []
  places = [os.environ.get('PATH', ''), *(str(pathlib.Path(folder) / 'cu13/bin') for folder in folders)]
  found = shutil.which('compute-sanitizer', path=os.pathsep.join(places))
  if found is None:
    raise NotRun('no compute-sanitizer here: pip install nvidia-cuda-sanitizer-api')
  return found


def run_gpu_tests(limit):
  if run_tests('gpu', must_run=True, limit=limit) != 0:  # tests of a GPU skip themselves where CUDA finds none
    raise Failed('see above')


def check_kernels(tool, tests):
  """The twins' tests under one of compute-sanitizer's tools; racecheck needs minutes for more than a few of them."""

  def step(limit):
    must_pass(
      [
        sanitizer(),
        '--tool',
        tool,
        '--error-exitcode',
        '1',
        built_with_cuda('kernels_cuda_twins_test'),
        '--gtest_brief=1',
        f'--gtest_filter={tests}',
      ],
      limit,
    )

  return step


def run_two_on_gpu(limit):
  must_pass(
    [
      BUNDLE / 'starling',
      'swarm',
      '--agents',
      '2',
      '--config',
      'configs/digits.yaml',
      '--out',
      'device_swarm',
      '--set',
      'agent.device=cuda',
    ],
    limit,
  )


def free_port():
  """A port that is free, and the next one too: the agent takes both."""
  while True:
    with contextlib.ExitStack() as stack:
      try:
        one = stack.enter_context(socket.socket())
        one.bind(('127.0.0.1', 0))
        port = one.getsockname()[1]
        stack.enter_context(socket.socket()).bind(('127.0.0.1', port + 1))
        return port
      except (OSError, OverflowError):
        continue


def last_event(path, kind):
  events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
  return next((event for event in reversed(events) if event.get('event') == kind), None)


def run_mixed(limit, devices=('cpu', 'cuda')):
  """One agent on each of the devices; both must end in order, and have exchanged."""
  end = time.monotonic() + limit
  folder = BUNDLE / 'mixed_swarm'
  shutil.rmtree(folder, ignore_errors=True)
  port = free_port()
  agents = []
  for number, device in enumerate(devices):
    own = folder / str(number)
    own.mkdir(parents=True)
    start = ['--config', BUNDLE / 'configs/digits.yaml', '--listen', f'127.0.0.1:{port}']
    join = ['--bootstrap', f'127.0.0.1:{port}', '--listen', '127.0.0.1:0']
    command = [
      BUNDLE / 'starling',
      'agent',
      *(join if number else start),
      '--data',
      BUNDLE / 'data/digits',
      '--device',
      device,
      '--sharding',
      'labels',
      '--shard',
      f'{number + 1}/{len(devices)}',
      '--state',
      own / 'state',
      '--metrics',
      own / 'metrics.jsonl',
    ]
    with open(own / 'log', 'w') as log:
      agents.append(
        subprocess.Popen(command, env=environment(), cwd=BUNDLE, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
      )
  try:
    while any(agent.poll() is None for agent in agents) and not any(agent.returncode for agent in agents):
      if time.monotonic() > end:
        raise Failed(f'stopped after {limit:.0f} s; see {folder}')
      time.sleep(0.1)
    codes = [agent.returncode for agent in agents]  # None: it would have waited for one that failed
  finally:
    for agent in agents:
      agent.kill()
      agent.wait()
  finish = [last_event(folder / str(number) / 'metrics.jsonl', 'finish') for number in range(len(devices))]
  if any(codes) or not all(finish):
    raise Failed(f'the agents ended with {codes}; see {folder}')
  done = [event['exchanges']['done'] for event in finish]
  print(f'exchanges {done}, accuracy {[event.get("accuracy") for event in finish]}')
  if min(done) == 0:
    raise Failed(f'an agent exchanged nothing; see {folder}')


# Milliseconds of torch.topk.
TORCH = """
import sys, time, torch
n = int(sys.argv[1])
k = (n + 99) // 100
x = torch.randn(n, device='cuda')
def top_k():
  torch.topk(x.abs(), k, sorted=False)
best = 1e30
for i in range(8):
  torch.cuda.synchronize()
  start = time.monotonic()
  for _ in range(10):
    top_k()
  torch.cuda.synchronize()
  best = min(best, (time.monotonic() - start) / 10)
print(1e3 * best)
"""


def run_goals(command, limit):
  """The table that a bench prints, for the page."""
  result = call(command, max(1, limit), capture_output=True, text=True)
  print(result.stdout + result.stderr, flush=True)
  if result.returncode != 0:
    raise Failed(f'ended with {result.returncode}')
  missed = sum(line.endswith('missed') for line in result.stdout.splitlines())
  if missed:
    raise Failed(f'{missed} goals missed', result.stdout)
  return result.stdout


def run_bench(limit):
  """The CUDA twins; torch does the same on the same GPU first."""
  program = built_with_cuda('bench_kernels_cuda')
  end = time.monotonic() + limit
  torch = subprocess.run(
    [sys.executable, '-c', TORCH, str(BENCH_ELEMENTS)],
    capture_output=True,
    text=True,
    stdin=subprocess.DEVNULL,
    timeout=limit,
  )
  if torch.returncode != 0:
    print(torch.stderr)
  torch_ms = torch.stdout.split() if torch.returncode == 0 else []
  return run_goals([program, str(BENCH_ELEMENTS), '7', *torch_ms], end - time.monotonic())


def run_boundaries(limit):
  return run_goals([built_with_cuda('bench_device')], limit)


# Tests of kernels whose threads meet in memory.
RACING = ['SquaredNorm', 'TopK*', 'ModuloEncode']
# What is run, for so many seconds at most: tests first.
STEPS = [
  ('tests of suite gpu', 90, run_gpu_tests),
  ('memcheck', 60, check_kernels('memcheck', '*/3Blocks')),
  ('racecheck', 90, check_kernels('racecheck', ':'.join(f'*.{test}/3Blocks' for test in RACING))),
  ('two agents on the GPU learn digits', 60, run_two_on_gpu),
  ('one agent on the CPU and one on the GPU learn digits', 60, run_mixed),
  ('boundaries', 60, run_boundaries),
  ('bench', 60, run_bench),
]


def run_step(step, limit):
  """(what the table says, whether it failed, text for the page)"""
  try:
    return 'passed', False, step(limit)
  except NotRun as why:
    return f'not run: {why}', False, None
  except Failed as why:
    return f'**failed**: {why}', True, why.text
  except subprocess.TimeoutExpired:
    return f'**failed**: stopped after {limit:.0f} s', True, None


def run_device(page, steps=None):
  names = gpu_names()
  head = ['# On a device', '', *names.splitlines(), '', '| step | result | seconds |', '|---|---|---|']
  rows, tables, failed = [], [], 0
  end = time.monotonic() + DEVICE_SECONDS
  for what, most, step in steps or STEPS:
    print(f'== {what}', flush=True)
    start = time.monotonic()
    limit = min(most, end - start)
    if limit < 1:
      result, wrong, text = f'**failed**: not begun within {DEVICE_SECONDS} s', True, None
    else:
      result, wrong, text = run_step(step, limit)
    print(result, flush=True)
    failed += wrong
    rows.append(f'| {what} | {result} | {time.monotonic() - start:.0f} |')
    if text:
      tables += ['', f'## {what}', '```', text.rstrip(), '```']
    page.write_text('\n'.join(head + rows + tables) + '\n')  # after each step: a later one may hang
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


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
