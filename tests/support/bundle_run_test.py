"""What a bundle's runner does with a GPU's steps: the real runner over a made-up bundle, with a made-up nvidia-smi."""

import contextlib
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

PATH = pathlib.Path(__file__).resolve().parents[2] / 'tools/lib/bundle_run.py'


def load():
  spec = importlib.util.spec_from_file_location('bundle_run', PATH)
  module = importlib.util.module_from_spec(spec)
  sys.dont_write_bytecode = True
  spec.loader.exec_module(module)
  return module


class Bundle(unittest.TestCase):
  def setUp(self):
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    self.folder = pathlib.Path(folder.name)
    self.page = self.folder / 'page'
    (self.folder / 'tests').mkdir()
    self.runner = load()
    self.runner.BUNDLE = self.folder
    self.runner.environment = lambda: dict(os.environ)
    self.output = io.StringIO()

  def program(self, name, text):
    path = self.folder / name
    path.write_text('#!/bin/sh\n' + text + '\n')
    path.chmod(0o755)
    return path

  def device(self, nvidia_smi='echo "NVIDIA H200, 580.1"', steps=None):
    """The exit status of `run device`; PATH holds nothing but what the test put there, and the shell."""
    tools = self.folder / 'bin'
    tools.mkdir(exist_ok=True)
    if nvidia_smi:
      self.program('bin/nvidia-smi', nvidia_smi)
    with (
      unittest.mock.patch.dict(os.environ, PATH=str(tools)),
      contextlib.redirect_stdout(self.output),
      contextlib.redirect_stderr(self.output),
    ):
      try:
        return self.runner.run_device(self.page, steps)
      except SystemExit as end:
        return end.code


class NoDevice(Bundle):
  def test_without_a_driver_nothing_is_run_and_it_is_said(self):
    self.assertEqual(self.device(nvidia_smi=None), 2)
    self.assertIn('no device here: nvidia-smi is not installed', self.output.getvalue())
    self.assertFalse(self.page.exists())

  def test_a_driver_without_a_gpu(self):
    for smi in ('echo No devices were found; exit 6', 'exit 0'):
      self.assertEqual(self.device(smi), 2)
    self.assertIn('nvidia-smi lists none (No devices were found)', self.output.getvalue())


class Device(Bundle):
  def rows(self):
    return [line for line in self.page.read_text().splitlines() if line.startswith('| ')][1:]

  def test_all_steps_are_run_in_order_and_written_down(self):
    order = []
    steps = [(name, 5, lambda limit, name=name: order.append(name)) for name in ('tests', 'swarm', 'bench')]
    self.assertEqual(self.device(steps=steps), 0)
    self.assertEqual(order, ['tests', 'swarm', 'bench'])
    self.assertIn('NVIDIA H200, 580.1', self.page.read_text())
    self.assertEqual([row.split(' | ')[1] for row in self.rows()], ['passed'] * 3)

  def test_one_that_fails_is_named_and_the_others_are_run(self):
    def fails(limit):
      raise self.runner.Failed('2 goals missed', 'a table')

    def missing(limit):
      raise self.runner.NotRun('no compute-sanitizer here')

    steps = [('a', 5, fails), ('b', 5, missing), ('c', 5, lambda limit: 'another table')]
    self.assertEqual(self.device(steps=steps), 1)
    self.assertEqual(
      [row.split(' | ')[1] for row in self.rows()],
      ['**failed**: 2 goals missed', 'not run: no compute-sanitizer here', 'passed'],
    )
    self.assertIn('a table', self.page.read_text())
    self.assertIn('another table', self.page.read_text())

  def test_a_step_that_hangs_is_stopped_and_the_rest_has_no_more_than_what_is_left(self):
    self.program('hangs', 'while :; do :; done')
    limits = []
    steps = [
      ('hangs', 1, lambda limit: self.runner.must_pass([self.folder / 'hangs'], limit)),
      ('next', 60, limits.append),
      ('last', 60, limits.append),
    ]
    self.runner.DEVICE_SECONDS = 30
    self.assertEqual(self.device(steps=steps), 1)
    self.assertIn('| hangs | **failed**: stopped after 1 s |', self.page.read_text())
    self.assertTrue(all(limit <= 29 for limit in limits) and len(limits) == 2)
    self.runner.DEVICE_SECONDS = 0
    self.assertEqual(self.device(steps=steps), 1)
    self.assertIn('not begun within 0 s', self.page.read_text())

  def test_the_steps_fit_into_the_time(self):
    self.assertLessEqual(sum(most for _, most, _ in self.runner.STEPS), self.runner.DEVICE_SECONDS)
    self.assertTrue(self.runner.STEPS[0][0].startswith('tests') and self.runner.STEPS[-1][0] == 'bench')

  def test_a_bundle_without_cuda_and_a_machine_without_a_sanitizer_are_told_apart(self):
    self.assertEqual(self.device(steps=[('memcheck', 5, self.runner.check_kernels('memcheck', '*'))]), 0)
    self.assertIn('not run: no compute-sanitizer here: pip install', self.page.read_text())
    self.program('bin/compute-sanitizer', 'exit 0')
    self.assertEqual(self.device(steps=[('memcheck', 5, self.runner.check_kernels('memcheck', '*'))]), 1)
    self.assertIn('built without nvcc', self.page.read_text())
    self.program('tests/tests_kernels_kernels_cuda_twins_test', 'exit 0')
    self.assertEqual(self.device(steps=[('memcheck', 5, self.runner.check_kernels('memcheck', '*'))]), 0)

  def test_goals_that_the_bench_misses_fail_it(self):
    self.runner.TORCH = 'raise SystemExit("no GPU here")'  # importing torch may take longer than the step
    steps = [('bench', 5, self.runner.run_bench)]
    self.program('tests/bench_kernels_cuda', 'echo "axpy 3.0 of the copy  met"')
    self.assertEqual(self.device(steps=steps), 0)
    self.program('tests/bench_kernels_cuda', 'echo "axpy 0.1 of the copy  missed"')
    self.assertEqual(self.device(steps=steps), 1)
    self.assertIn('**failed**: 1 goals missed', self.page.read_text())
    self.assertIn('axpy 0.1 of the copy', self.page.read_text())


MIXED_AGENT = """
while [ $# -gt 0 ]; do
  case "$1" in --metrics) metrics="$2";; --device) device="$2";; --shard) shard="$2";; esac; shift
done
echo '{"event": "finish", "exchanges": {"done": '"$DONE"'}, "accuracy": 0.9}' > "$metrics"
[ "$shard" = 1/2 ] || [ "$shard" = 2/2 ] || exit 3
[ "$device" != "$BROKEN" ]
"""


class Mixed(Bundle):
  def mixed(self, done, broken='none'):
    self.program('starling', MIXED_AGENT)
    with unittest.mock.patch.dict(os.environ, DONE=str(done), BROKEN=broken):
      return self.device(steps=[('mixed', 20, self.runner.run_mixed)])

  def test_both_must_exchange_and_end_in_order(self):
    self.assertEqual(self.mixed(5), 0)
    self.assertEqual(self.mixed(0), 1)
    self.assertIn('exchanged nothing', self.page.read_text())
    self.assertEqual(self.mixed(5, broken='cuda'), 1)
    self.assertRegex(self.page.read_text(), r'the agents ended with \[(0|None), 1\]')


if __name__ == '__main__':
  unittest.main()
