"""A trained model leaves its state folder: `starling export` and `starling eval`, on finished and on running agents.

The lines of agent/train/PYTORCH.md are run by a Python with torch, where there is one.
"""

import itertools
import json
import math
import os
import pathlib
import pickle
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import swarm

PAGE = swarm.ROOT / 'agent/train/PYTORCH.md'
TRAINED = """
swarm:
  name: export
  model: %s
  batch: 32
  optimizer: {learning_rate: %s, momentum: 0.9}
  stop_after: %d
agent:
  checkpoint: {every: 1s, keep: 100}
  evaluate_every: 0s
"""
CNN = '{kind: cnn, input: [3, 32, 32], classes: 10, channels: 4}'
# Each kind of network with its learning rate and its data; layers of different widths where it has several.
KINDS = {
  'cnn': (CNN, 0.01, 'photographs'),
  'mlp': ('{kind: mlp, input: [1, 28, 28], classes: 10, hidden: [24, 16]}', 0.02, 'digits'),
  'vgg': ('{kind: vgg, input: [1, 28, 28], classes: 10, channels: 4, hidden: [20]}', 0.01, 'digits'),
  'lstm': ('{kind: lstm, input: [1, 1, 20], classes: 128, hidden: [24, 16]}', 0.3, 'text'),
}
TRAIN, TEST = 800, 400
KEPT = tempfile.TemporaryDirectory(prefix='starling-export-')  # until the tests end
TRAINED_ONCE = {}  # kind -> what finished() gives
# Of the page's model: accuracy and mean loss on the test files of a folder, in batches as the program takes them.
JUDGE = """
def judge(model, metadata, folder, data):
  folder = pathlib.Path(folder)
  if data == 'photographs':
    records = torch.frombuffer(bytearray((folder / 'test_batch.bin').read_bytes()), dtype=torch.uint8).view(-1, 3073)
    samples, wanted = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()
  elif data == 'digits':
    images = bytearray((folder / 't10k-images-idx3-ubyte').read_bytes()[16:])
    samples = torch.frombuffer(images, dtype=torch.uint8).view(-1, 1, 28, 28)
    labels = bytearray((folder / 't10k-labels-idx1-ubyte').read_bytes()[8:])
    wanted = torch.frombuffer(labels, dtype=torch.uint8).long()
  else:
    text, length = (folder / 'test.txt').read_bytes(), json.loads(metadata['model'])['input'][2]
    starts = range(0, len(text) - length, length)
    samples = torch.tensor([list(text[start:start + length]) for start in starts], dtype=torch.uint8)
    wanted = torch.tensor([list(text[start + 1:start + length + 1]) for start in starts]).flatten()
  outputs = scores(model, metadata, samples).flatten(0, -2)
  accuracy = (outputs.argmax(1) == wanted).double().mean().item()
  return {'accuracy': accuracy, 'loss': nn.functional.cross_entropy(outputs, wanted).item()}


import os, pathlib, sys
figures = {}
for kind, folder, data in CASES:
  os.chdir(pathlib.Path(sys.argv[1]) / kind)
  for load in LOADS:
    exec(load)
    figures.setdefault(kind, []).append(judge(model, metadata, folder, data))
print(json.dumps(figures))
"""


def noisy_samples(side, channels, count, generator):
  """(label, bytes) of noisy patterns that a network learns. A few labels are wrong, so no network knows them all."""
  patterns = [
    [
      60 + 140 * (10 * x // side == label or 10 * y // side == (label + channel) % 10)
      for channel, y, x in itertools.product(range(channels), range(side), range(side))
    ]
    for label in range(10)
  ]
  for i in range(count):
    noise = generator.randbytes(len(patterns[0]))
    pixels = bytes((pixel + one) // 2 for pixel, one in zip(patterns[i % 10], noise))
    yield (i + (i % 21 == 0)) % 10, pixels


def write_photographs(folder, generator):
  for name, count in [('data_batch_1.bin', TRAIN), ('test_batch.bin', TEST)]:
    records = [bytes([label]) + pixels for label, pixels in noisy_samples(32, 3, count, generator)]
    (folder / name).write_bytes(b''.join(records))


def write_digits(folder, generator):
  for stem, count in [('train', TRAIN), ('t10k', TEST)]:
    labels, images = zip(*noisy_samples(28, 1, count, generator))
    (folder / f'{stem}-images-idx3-ubyte').write_bytes(struct.pack('>4I', 0x803, count, 28, 28) + b''.join(images))
    (folder / f'{stem}-labels-idx1-ubyte').write_bytes(struct.pack('>2I', 0x801, count) + bytes(labels))


def write_text(folder, generator):
  words = ['the', 'agents', 'mix', 'their', 'models', 'and', 'then', 'train', 'again', 'on', 'own', 'data']
  for name in ['train.txt', 'test.txt']:
    (folder / name).write_text(' '.join(generator.choice(words) for _ in range(4000)))


WRITERS = {'photographs': write_photographs, 'digits': write_digits, 'text': write_text}


class PlainPickle(pickle.Unpickler):
  """Reads data.pkl as torch.load(weights_only=True) does, without torch: a tensor is (shape, strides, bytes)."""

  GLOBALS = {
    ('collections', 'OrderedDict'): __import__('collections').OrderedDict,
    ('torch', 'FloatStorage'): 'F32',
    ('torch._utils', '_rebuild_tensor_v2'): lambda storage, offset, shape, strides, gradient, hooks: (
      shape,
      strides,
      storage,
    ),
  }

  def __init__(self, archive):
    super().__init__(archive.open('archive/data.pkl'))
    self.archive = archive

  def find_class(self, module, name):
    return self.GLOBALS[module, name]

  def persistent_load(self, place):
    word, kind, key, device, count = place
    assert (word, kind, device) == ('storage', 'F32', 'cpu')
    storage = self.archive.read(f'archive/data/{key}')
    assert len(storage) == 4 * count
    return storage


def read_pt(path):
  with zipfile.ZipFile(path) as archive:
    assert archive.testzip() is None
    for entry in archive.infolist():
      assert entry.compress_type == zipfile.ZIP_STORED
    return PlainPickle(archive).load()


def read_safetensors(path):
  """(metadata, name -> (shape, bytes))"""
  content = path.read_bytes()
  (size,) = struct.unpack_from('<Q', content)
  assert size % 8 == 0
  header = json.loads(content[8 : 8 + size])
  metadata, values = header.pop('__metadata__'), content[8 + size :]
  tensors, end = {}, 0
  for name, tensor in header.items():
    begin, stop = tensor['data_offsets']
    assert tensor['dtype'] == 'F32' and begin == end
    tensors[name], end = (tuple(tensor['shape']), values[begin:stop]), stop
  assert end == len(values)
  return metadata, tensors


def python_with_torch():
  """A Python that can import torch and safetensors, or None."""
  named = os.environ.get('STARLING_PYTORCH')
  for python in [named] if named else [sys.executable, str(swarm.ROOT / 'build/venv/bin/python'), 'python3']:
    test = 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ["torch", "safetensors"])))'
    try:
      if subprocess.run([python, '-c', test], stdin=subprocess.DEVNULL).returncode == 0:
        return python
    except OSError:
      continue
  return None


class ExportTest(swarm.Case):
  def run_program(self, *arguments, status=0, **options):
    """(standard output, standard error)"""
    command = [swarm.PROGRAM, *map(str, arguments)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    self.assertEqual(result.returncode, status, f'{command}\n{result.stdout}{result.stderr}')
    return result.stdout, result.stderr

  def refused(self, *arguments, status=1):
    out, error = self.run_program(*arguments, status=status)
    self.assertEqual(out, '')
    return error

  def trained(self, kind, steps=60, **options):
    """(a running or finished agent of one network, the folder of its data)"""
    model, learning_rate, data = KINDS[kind]
    folder = self.folder / data
    if not folder.exists():
      folder.mkdir()
      WRITERS[data](folder, random.Random(7))
    config = self.folder / f'{kind}.yaml'
    config.write_text(TRAINED % (model, learning_rate, steps))
    pace = {'STARLING_TEST_COMPUTE_MS': '0'}
    return self.agent(kind, '--config', config, '--data', folder, environment=pace, **options), folder

  def finished(self, kind):
    """(the state folder of an agent that has trained one network, the folder of its data, its own last accuracy)"""
    if kind not in TRAINED_ONCE:
      agent, data = self.trained(kind)
      self.assertEqual(self.wait_end(agent), 0, agent.log())
      kept = pathlib.Path(KEPT.name) / kind
      shutil.copytree(agent.state, kept / 'state')
      shutil.copytree(data, kept / 'data')
      TRAINED_ONCE[kind] = kept / 'state', kept / 'data', agent.last('finish')['accuracy']
    return TRAINED_ONCE[kind]

  def checkpoints(self, agent):
    return sorted((agent.state / 'checkpoints').glob('*.ckpt'))

  def damage(self, path):
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)

  def exported(self, kind, state):
    """The files in both formats."""
    paths = [self.folder / 'model.pt', self.folder / 'model.safetensors']
    for path in paths:
      out, error = self.run_program('export', '--state', state, path)
      self.assertIn(f'wrote {path}: {kind}, ', out)
      self.assertEqual(error, '')
    return paths

  def judged(self, state, data):
    return json.loads(self.run_program('eval', '--state', state, '--data', data, '--json')[0])

  def test_both_formats_hold_every_network(self):
    for kind in KINDS:
      with self.subTest(kind):
        folder, data, accuracy = self.finished(kind)
        pt, safetensors = self.exported(kind, folder)
        state = read_pt(pt)
        metadata, tensors = read_safetensors(safetensors)
        self.assertEqual(state.metadata, metadata)
        self.assertEqual({name: (shape, values) for name, (shape, _, values) in state.items()}, tensors)
        self.assertEqual(metadata['step'], '60')
        for shape, strides, values in state.values():
          self.assertEqual(4 * math.prod(shape), len(values))
          self.assertEqual(strides, tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))
        judged = self.judged(folder, data)
        self.assertAlmostEqual(judged['accuracy'], accuracy, delta=1e-4)
        self.assertGreater(judged['accuracy'], 0.15)
        self.assertLess(judged['accuracy'], 1)

  def test_the_page_rebuilds_every_network(self):
    python = python_with_torch()
    if python is None:
      self.skipTest('no Python with torch and safetensors here; STARLING_PYTORCH=PYTHON names one')
    build, *loads = re.findall(r'^```python\n(.*?)^```', PAGE.read_text(), re.S | re.M)
    self.assertEqual(len(loads), 2)
    cases, judged = [], {}
    for kind in KINDS:
      state, data, _ = self.finished(kind)
      (self.folder / kind).mkdir(exist_ok=True)
      for path in self.exported(kind, state):
        path.rename(self.folder / kind / path.name)
      judged[kind] = self.judged(state, data)
      cases.append((kind, str(data), KINDS[kind][2]))
    script = self.folder / 'rebuild.py'
    script.write_text(f'{build}\nCASES = {cases!r}\nLOADS = {loads!r}\n{JUDGE}')
    result = subprocess.run([python, script, self.folder], capture_output=True, text=True)
    self.assertEqual(result.returncode, 0, result.stderr)
    for kind, rebuilt in json.loads(result.stdout).items():
      with self.subTest(kind):
        self.assertEqual(len(rebuilt), 2)
        for one in rebuilt:
          for figure in ['accuracy', 'loss']:
            self.assertAlmostEqual(one[figure], judged[kind][figure], delta=1e-4)

  def test_classes_add_up_to_the_whole(self):
    state, data, _ = self.finished('mlp')
    judged = self.judged(state, data)
    self.assertEqual([one['class'] for one in judged['classes']], list(range(10)))
    self.assertEqual(sum(one['samples'] for one in judged['classes']), TEST)
    for figure in ['accuracy', 'loss']:
      total = sum(one[figure] * one['samples'] for one in judged['classes'])
      self.assertAlmostEqual(total / TEST, judged[figure], places=5)
    text, _ = self.run_program('eval', '--state', state, '--data', data)
    self.assertIn(f'{data}: {TEST} samples, accuracy {100 * judged["accuracy"]:.2f} %', text)
    self.assertEqual(len(text.splitlines()), 4 + 10)

  def test_text_is_judged_by_the_byte(self):
    state, data, _ = self.finished('lstm')
    judged = self.judged(state, data)
    self.assertAlmostEqual(judged['bits_per_byte'], judged['loss'] / math.log(2))
    self.assertAlmostEqual(judged['perplexity'], math.exp(judged['loss']))
    self.assertNotIn('classes', judged)

  def test_without_test_files_the_training_files_are_used(self):
    state, data, _ = self.finished('mlp')
    for path in data.glob('train*'):
      shutil.copy(path, self.folder)
    out, error = self.run_program('eval', '--state', state, '--data', self.folder)
    self.assertIn(f'{TRAIN} samples', out)
    self.assertIn('holds no test files, so all of it is judged', error)

  def test_a_running_agent_is_left_alone(self):
    agent, data = self.trained('mlp', steps=0)
    out = self.folder / 'model.pt'
    self.wait(lambda: self.checkpoints(agent), 'the first checkpoint')
    steps = set()

    def looked():
      self.run_program('export', '--state', agent.state, out)
      self.assertEqual(self.judged(agent.state, data)['samples'], TEST)
      steps.add(int(read_pt(out).metadata['step']))
      return len(steps) >= 4

    self.wait(looked, 'checkpoints of four steps')
    self.assertTrue(agent.running())
    self.assertEqual(self.interrupt(agent)[0], 0, agent.log())

  def test_a_damaged_checkpoint_gives_way_to_the_one_before(self):
    agent, data = self.trained('mlp', steps=0)
    self.wait(lambda: len(self.checkpoints(agent)) >= 2, 'two checkpoints')
    self.interrupt(agent)
    *_, before, newest = self.checkpoints(agent)
    self.damage(newest)
    for command in (['export', self.folder / 'model.pt'], ['eval', '--data', data]):
      out, error = self.run_program(*command, '--state', agent.state)
      self.assertIn(str(before), out)
      self.assertIn(f'passed over, trying the one before it: {newest}: damaged: its checksum', error)
    for path in self.checkpoints(agent):
      path.write_bytes(path.read_bytes()[:5000])
    kept = (self.folder / 'model.pt').read_bytes()
    error = self.refused('export', '--state', agent.state, self.folder / 'model.pt')
    self.assertIn('none of the checkpoints in', error)
    self.assertEqual((self.folder / 'model.pt').read_bytes(), kept)

  def test_the_model_before_the_first_step_does_not_stand_for_damaged_ones(self):
    state, data, _ = self.finished('mlp')
    copy = self.folder / 'copy'
    shutil.copytree(state, copy)
    first, *later = sorted((copy / 'checkpoints').glob('*.ckpt'))
    self.assertIn('-step-0.', first.name)
    for path in later:
      self.damage(path)
    for command in (['export', self.folder / 'model.pt'], ['eval', '--data', data]):
      self.assertIn('but the model before the first step are damaged', self.refused(*command, '--state', copy))
    self.assertFalse((self.folder / 'model.pt').exists())

  def test_wrong_folders_are_named(self):
    out = self.folder / 'model.pt'
    empty = self.folder / 'empty'
    empty.mkdir()
    for folder, cause in [(self.folder / 'none', 'No such file or directory'), (empty, 'holds no settings of a swarm')]:
      error = self.refused('export', '--state', folder, out)
      self.assertIn(f'{folder}', error)
      self.assertIn(cause, error)
      self.assertIn('name the --state folder of an agent', error)
      self.assertEqual(self.refused('eval', '--state', folder, '--data', 'generated'), error)
    agent = self.agent('quadratic', '--config', self.quadratic(), '--set', 'swarm.stop_after=20')
    self.assertEqual(self.wait_end(agent), 0)
    self.assertIn('is a quadratic', self.refused('export', '--state', agent.state, out))
    self.assertFalse(out.exists())

  def test_files_that_cannot_be_written_are_named(self):
    state, *_ = self.finished('mlp')
    for name in ['model.onnx', 'model', 'pt']:
      error = self.refused('export', '--state', state, self.folder / name, status=2)
      self.assertIn(f"'{self.folder / name}' must end in .safetensors or .pt", error)
    lost = self.folder / 'none/model.pt'
    error = self.refused('export', '--state', state, lost)
    self.assertIn(f'{lost} cannot be written', error)
    self.assertIn('make its folder first', error)
    folder = self.folder / 'folder.pt'
    folder.mkdir()
    self.assertIn('Is a directory', self.refused('export', '--state', state, folder))
    self.assertFalse(pathlib.Path(f'{folder}.tmp').exists())

    out = self.folder / 'model.safetensors'
    out.write_text('an older export')
    full = self.start('full', 'export', '--state', state, out, limits={resource.RLIMIT_FSIZE: 2000})
    self.assertEqual(self.wait_end(full), 1)
    self.assertIn('make room', full.log())
    self.assertEqual(out.read_text(), 'an older export')
    self.assertFalse(pathlib.Path(f'{out}.tmp').exists())
    self.run_program('export', '--state', state, out)
    self.assertEqual(read_safetensors(out)[0]['swarm'], 'export')
    mask = os.umask(0)
    os.umask(mask)
    self.assertEqual(out.stat().st_mode & 0o777, 0o666 & ~mask)


if __name__ == '__main__':
  swarm.main()
