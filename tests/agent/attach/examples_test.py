"""The examples of agent/attach, each member a process of its own: all learn, and end with one model.

The class Full takes minutes, and is of the suite `long`.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import venv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attach_case  # first: it finds the Python with torch
from attach_case import ENVIRONMENT, ROOT, processes

import torch

EXAMPLES = ROOT / 'agent/attach/examples'
PATIENCE = 1500  # seconds
NANOGPT = r'held-out loss (\S+), agreed: '
LORA = r'held-out loss (\S+) before, (\S+) after, agreed: '


class Members(attach_case.Case):
  def start(self, name, *arguments):
    return self.python(EXAMPLES / f'{name}.py', *arguments)

  def started(self, name, count, *arguments):
    """So many members; all but the first join that one."""
    members = [self.start(name, 0, count, *arguments)]
    return members + [self.start(name, i, count, self.ticket(name, members[0]), *arguments) for i in range(1, count)]

  def ticket(self, name, founder):
    path = self.folder / f'{name}-0/ticket'
    self.wait_until(lambda: path.exists() or not founder.running(), 'a ticket', PATIENCE)
    self.assertTrue(path.exists(), founder.log())
    return f'@{path}'

  def result(self, member, pattern):
    """The numbers in the last line of one that has ended."""
    self.ends(member, patience=PATIENCE)
    self.assertRegex(member.log(), pattern)
    return [float(number) for number in re.search(pattern, member.log()).groups()]

  def results(self, members, pattern):
    return [self.result(member, pattern + 'True') for member in members]

  def alone(self, name, pattern, *arguments):
    return self.result(self.start(name, *arguments, '--alone'), pattern)[-1]

  def model(self, name):
    return torch.load(self.folder / f'{name}.pt', weights_only=True)

  def check_one_model(self, name, count):
    first = self.model(f'{name}-0')
    for member in range(1, count):
      for key, tensor in self.model(f'{name}-{member}').items():
        self.assertLess((tensor - first[key]).norm(), 0.05 * first[key].norm() + 1e-3, f'{key} of {member}')

  def check_adapters_alone_are_shared(self):
    base, shared = self.model('nanogpt-0'), 0
    for key, tensor in self.model('lora-0').items():
      if 'lora_' in key:
        shared += tensor.numel()
      else:
        self.assertTrue(torch.equal(tensor, base[key.replace('.layer.', '.')]), key)
    settings = (self.folder / 'lora-0/settings.yaml').read_text()
    self.assertEqual(int(re.search(r'params: (\d+)', settings)[1]), shared)
    self.assertLess(shared, sum(tensor.numel() for tensor in base.values()) / 2)


class Short(Members):
  def test_members_with_some_digits_learn_all(self):
    self.assertLessEqual(len((EXAMPLES / 'digits.py').read_text().splitlines()), 40)
    for (accuracy,) in self.results(self.started('digits', 3), r'accuracy (\S+), the models agree: '):
      self.assertGreater(accuracy, 0.8)

  def test_members_with_texts_of_some_topics_learn_all_and_then_adapters(self):
    for (loss,) in self.results(self.started('nanogpt', 4, '--steps', 120), NANOGPT):
      self.assertLess(loss, 2)
    self.check_one_model('nanogpt', 4)
    for before, after in self.results(self.started('lora', 3, '--steps', 80), LORA):
      self.assertLess(after, 0.9 * before)
    self.check_one_model('lora', 3)
    self.check_adapters_alone_are_shared()

  def test_a_cell_of_the_notebook_is_interrupted_and_run_again(self):
    for name in ('nbclient', 'ipykernel'):
      if importlib.util.find_spec(name) is None:
        self.skipTest(f'{name} is not installed here')
    import nbclient
    import nbformat

    cells = nbformat.read(EXAMPLES / 'notebook.ipynb', as_version=4)
    client = nbclient.NotebookClient(cells, timeout=PATIENCE, resources={'metadata': {'path': str(self.folder)}})
    cells = cells.cells
    train = next(index for index, cell in enumerate(cells) if cell.id == 'train')

    def interrupt():
      self.wait_until(lambda: cells[train].outputs, 'a line of the cell', PATIENCE)
      os.kill(client.km.provisioner.pid, signal.SIGINT)

    with client.setup_kernel(env={**os.environ, **ENVIRONMENT}):
      for index in range(train):
        client.execute_cell(cells[index], index)
      threading.Thread(target=interrupt).start()
      with self.assertRaisesRegex(nbclient.exceptions.CellExecutionError, 'KeyboardInterrupt'):
        client.execute_cell(cells[train], train)
      for index in range(train, len(cells)):
        client.execute_cell(cells[index], index)
    self.assertIn('the models agree: True', str(cells[-2].outputs))
    model = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model.load_state_dict(torch.load(self.folder / 'notebook.pt', weights_only=True))
    inputs = torch.linspace(0, 6, 100)[:, None]
    self.assertLess((model(inputs) - inputs.sin()).square().mean().item(), 0.01)


class Full(Members):
  def test_a_newcomer_takes_the_place_of_one_that_is_killed(self):
    steps = ('--steps', 1000)
    members = self.started('nanogpt', 4, *steps)
    self.wait_until(lambda: 'step 100:' in members[3].log() or not members[3].running(), 'step 100', PATIENCE)
    members[3].kill()
    shutil.rmtree(self.folder / 'nanogpt-3')
    members[3] = self.start('nanogpt', 3, 4, self.ticket('nanogpt', members[0]), *steps)
    losses = [loss for (loss,) in self.results(members, NANOGPT)]
    self.check_one_model('nanogpt', 4)
    whole = self.alone('nanogpt', NANOGPT, 0, 1, *steps)
    apart = self.alone('nanogpt', NANOGPT, 0, 4, *steps)
    self.assertLess(max(losses), whole + 0.25 * (apart - whole), f'all texts {whole}, one topic {apart}')

  def test_sites_learn_more_by_their_adapters_than_each_alone(self):
    self.alone('nanogpt', NANOGPT, 0, 1)
    apart = [self.alone('lora', LORA, site, 3) for site in range(3)]
    losses = [after for _, after in self.results(self.started('lora', 3), LORA)]
    self.check_one_model('lora', 3)
    self.check_adapters_alone_are_shared()
    self.assertLess(max(losses), min(apart))

  def test_the_notebook_in_an_environment_of_its_own(self):
    place = self.folder / 'environment'
    venv.create(place, with_pip=True)
    python = place / 'bin/python'
    installed = subprocess.run([python, '-m', 'pip', 'install', '-q', 'nbclient', 'ipykernel'], capture_output=True)
    if installed.returncode != 0:
      self.skipTest(f'pip fetched neither nbclient nor ipykernel: {installed.stderr.decode()[-300:]}')
    (packages,) = place.glob('lib/python3*/site-packages')
    (packages / 'torch.pth').write_text(str(pathlib.Path(torch.__path__[0]).parent))
    done = subprocess.run([python, __file__, 'of_the_notebook'], capture_output=True, text=True)
    self.assertIn('ok 1', done.stdout, done.stderr)
    self.assertNotIn('SKIP', done.stdout)


if __name__ == '__main__':
  processes.main()
