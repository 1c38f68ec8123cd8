"""The wheel in a fresh environment: what its files ask of a system, the program, and two loops that train.

Makes it by tools/wheel.
"""

import functools
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

from attach_case import PATIENCE, ROOT, processes

BOUNDS = {'GLIBC': (2, 34), 'GLIBCXX': (3, 4, 29), 'CXXABI': (1, 3, 13)}  # of RHEL 9
BYTES_MAX = 8 << 20
SCRIPT = """
import sys, torch, starling
assert 'site-packages' in starling.__file__, starling.__file__
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
where = {'bootstrap': sys.argv[1]} if len(sys.argv) > 1 else {'config': 'swarm.yaml', 'stop_after': 40}
swarm = starling.join(model, optimizer, **where)
running = True
while running:
  inputs = torch.randn(16, 8)
  loss = (model(inputs) - inputs[:, :4]).square().mean()
  optimizer.zero_grad()
  loss.backward()
  optimizer.step()
  running = swarm.step(loss, samples=16)
print('agreed', swarm.finish(), 'exchanges', swarm.metrics()['swarm/exchanges'], flush=True)
"""


def above_bounds(versions):
  """Of the versioned symbols that a file needs, as objdump prints them, those beyond BOUNDS."""
  found = re.findall(r'\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)', versions)
  return sorted({f'{name}_{text}' for name, text in found if tuple(map(int, text.split('.'))) > BOUNDS[name]})


@functools.cache
def made_wheel():
  made = subprocess.run([ROOT / 'tools/wheel'], stdout=subprocess.PIPE, text=True, check=True)
  return pathlib.Path(made.stdout.strip().splitlines()[-1])


def needs(path):
  """The "Version References" of an ELF file."""
  printed = subprocess.run(['objdump', '-p', path], capture_output=True, text=True, check=True).stdout
  return printed.partition('Version References:')[2]


class WheelTest(processes.Case):
  def setUp(self):
    super().setUp()
    self.wheel = made_wheel()

  def test_no_file_asks_for_more_than_the_tag_says(self):
    self.assertEqual(above_bounds('GLIBC_2.34 GLIBC_2.35 GLIBCXX_3.4.30 GLIBC_2.4'), ['GLIBCXX_3.4.30', 'GLIBC_2.35'])
    self.assertIn('-py3-none-manylinux_2_34_x86_64', self.wheel.name)
    self.assertLessEqual(self.wheel.stat().st_size, BYTES_MAX)
    with zipfile.ZipFile(self.wheel) as files:
      files.extractall(self.folder)
      native = [name for name in files.namelist() if files.read(name).startswith(b'\x7fELF')]
    self.assertIn('starling/libstarling.so', native)
    self.assertGreater(len(native), 2)
    for name in native:
      self.assertEqual(above_bounds(needs(self.folder / name)), [], name)

  def test_two_loops_of_a_fresh_environment_train_together(self):
    subprocess.run([sys.executable, '-m', 'venv', self.folder / 'venv'], check=True)
    python, program = (self.folder / 'venv/bin' / name for name in ('python', 'starling'))
    subprocess.run([python, '-m', 'pip', 'install', '-q', '--no-index', '--no-deps', self.wheel], check=True)
    packages = next((self.folder / 'venv/lib').glob('python3*/site-packages'))
    torch = pathlib.Path(importlib.util.find_spec('torch').origin).parents[1]
    (packages / 'torch.pth').write_text(f'{torch}\n')  # pip would fetch gigabytes
    subprocess.run([program, 'init', '--task', 'own', 'swarm.yaml'], cwd=self.folder, check=True, capture_output=True)
    (self.folder / 'train.py').write_text(SCRIPT)
    clean = {key: value for key, value in os.environ.items() if key not in ('PYTHONPATH', 'STARLING_LIBRARY')}
    for name in ('one', 'two'):
      ticket = self.folder / 'starling-state/ticket'
      words = [] if name == 'one' else [f'@{ticket}']
      child = subprocess.Popen(
        [python, 'train.py', *words], cwd=self.folder, env=clean, stdout=(self.folder / name).open('w'), stderr=2
      )
      self.addCleanup(child.wait)
      self.addCleanup(child.kill)
      until = time.monotonic() + PATIENCE
      while name == 'one' and not ticket.exists():
        self.assertIsNone(child.poll(), (self.folder / name).read_text())
        self.assertLess(time.monotonic(), until, 'the first loop never listened')
        processes.pause(0.05)
      if name == 'one':
        first = child
        shown = subprocess.run([program, 'status', '--once'], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
      else:
        self.assertEqual(child.wait(PATIENCE), 0)
        self.assertEqual(first.wait(PATIENCE), 0)
    self.assertTrue((self.folder / 'starling-state-2').is_dir(), 'the second loop took the next free folder')
    for name in ('one', 'two'):
      self.assertRegex((self.folder / name).read_text(), r'agreed True exchanges [1-9]')


if __name__ == '__main__':
  processes.main()
