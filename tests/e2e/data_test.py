"""Data as people have them: `check --data` says what lies there, `init --data` writes a config that fits, and an agent
trains on it. Refusals name what was found and what was expected."""

import gzip
import random
import re
import struct
import zipfile
import zlib

import swarm

CONFIG = """
swarm:
  model: %s
  stop_after: 5
  exchange: {kind: none}
agent: {threads: 1, data: {path: %s}}
"""


def png(width, height, pixels):
  """A gray PNG."""
  rows = b''.join(b'\0' + pixels[width * row : width * (row + 1)] for row in range(height))

  def chunk(kind, body):
    return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))

  header = struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)
  return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


def npy(kind, shape, body):
  header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
  return b'\x93NUMPY\1\0' + struct.pack('<H', len(header)) + header + body


class Data(swarm.Case):
  def setUp(self):
    super().setUp()
    self.data = self.folder / 'data'

  def write(self, name, content):
    path = self.data / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)

  def check(self, *arguments, status=0):
    process = self.start(f'check-{len(self.processes)}', 'check', *arguments)
    self.assertEqual(self.wait_end(process, 60), status, self.logs())
    return process.log()

  def trains(self, said):
    """An agent with the model that `check` names."""
    path = self.folder / 'data.yaml'
    path.write_text(CONFIG % (re.search(r'model: (\{.*\})', said)[1], self.data))
    agent = self.agent('agent', '--config', path)
    self.assertEqual(self.wait_end(agent, 60), 0, self.logs())
    self.assertEqual(agent.last('finish')['steps'], 5)

  def idx(self, folder, side, count=40):
    for part, what in (('train', count), ('t10k', 10)):
      images = struct.pack('>IIII', 0x803, what, side, side) + random.randbytes(what * side * side)
      labels = struct.pack('>II', 0x801, what) + bytes(i % 10 for i in range(what))
      self.write(f'{folder}{part}-images-idx3-ubyte.gz', gzip.compress(images))
      self.write(f'{folder}{part}-labels-idx1-ubyte.gz', gzip.compress(labels))

  def test_gzipped_digits_below_a_root_folder(self):
    self.idx('MNIST/raw/', 28)
    said = self.check('--data', self.data)
    for text in (
      f'{self.data}: IDX, {self.data}/MNIST/raw/train-images-idx3-ubyte.gz',
      'train: 40 samples of [1, 28, 28], 10 labels, 4 of each',
      'test: 10 samples',
      'kind: cnn',
    ):
      self.assertIn(text, said)
    self.trains(said)

  def test_a_restart_with_another_part_of_the_data_is_said(self):
    path = self.folder / 'generated.yaml'
    path.write_text(CONFIG % ('{kind: mlp, hidden: [8]}', 'generated'))
    state = self.folder / 'kept'
    part = ('--sharding', 'iid', '--shard', '2/4')
    first = self.agent('first', '--config', path, *part, state=state)
    self.assertEqual(self.wait_end(first), 0, self.logs())
    again = self.agent('again', '--config', path, *part, state=state)
    self.assertEqual(self.wait_end(again), 0, self.logs())
    for agent in (first, again):
      self.assertNotIn('another part of its data', agent.log())
    other = self.agent('other', '--config', path, state=state)
    self.assertEqual(self.wait_end(other), 0, self.logs())
    self.assertIn('--sharding all now, --sharding iid --shard 2/4 at its last start', other.log())

  def test_small_images_get_a_model_that_takes_them(self):
    self.idx('', 8)
    said = self.check('--data', self.data)
    self.assertIn('model: {kind: mlp, input: [1, 8, 8], classes: 10', said)
    self.trains(said)
    config = self.folder / 'swarm.yaml'
    self.assertEqual(self.wait_end(self.start('digits', 'init', '--task', 'digits', config)), 0)
    said = self.check(config, '--data', self.data, status=1)
    self.assertIn('[1, 8, 8] but the model takes [1, 28, 28]; use other data; ', said)
    self.assertIn('a new swarm may set swarm.model: {kind: mlp, input: [1, 8, 8]', said)

  def test_init_writes_a_config_that_fits(self):
    for class_name in ('cat', 'dog'):
      for number in range(3):
        self.write(f'train/{class_name}/{number}.png', png(16, 20, random.randbytes(320)))
      self.write(f'val/{class_name}/0.png', png(16, 20, random.randbytes(320)))
    config = self.folder / 'swarm.yaml'
    process = self.start('init', 'init', '--data', self.data, config)
    self.assertEqual(self.wait_end(process), 0, self.logs())
    self.assertIn(f'path: "{self.data}"', config.read_text())
    said = self.check(config, '--data', self.data)
    fits = f'fits the model of {config}'
    for text in (f'{config}: ok', 'classes: 0 cat, 1 dog', 'train: 6 samples of [1, 20, 16]', fits):
      self.assertIn(text, said)

  def test_labels_from_1_are_named(self):
    self.data.mkdir()
    with zipfile.ZipFile(self.data / 'a.npz', 'w') as archive:
      archive.writestr('x_train.npy', npy('|u1', (6, 9, 9), random.randbytes(6 * 81)))
      archive.writestr('y_train.npy', npy('|u1', (6,), bytes(1 + i % 3 for i in range(6))))
    said = 'no sample has label 0'
    self.assertIn(said, self.check('--data', self.data))
    process = self.start('init', 'init', '--data', self.data, self.folder / 'swarm.yaml')
    self.assertEqual(self.wait_end(process), 0, self.logs())
    self.assertIn(said, process.log())

  def test_arrays_and_texts(self):
    self.data.mkdir()
    with zipfile.ZipFile(self.data / 'a.npz', 'w', zipfile.ZIP_DEFLATED) as archive:
      archive.writestr('x_train.npy', npy('|u1', (12, 9, 9, 3), random.randbytes(12 * 243)))
      archive.writestr('y_train.npy', npy('<i8', (12,), struct.pack('<12q', *(i % 3 for i in range(12)))))
    said = self.check('--data', self.data)
    self.assertIn('NumPy archive', said)
    self.assertIn('train: 12 samples of [3, 9, 9], 3 labels, 4 of each', said)
    self.trains(said)
    self.data = self.folder / 'book.txt'
    self.data.write_text('It was a bright cold day in April. ' * 20)
    said = self.check('--data', self.data)
    self.assertIn('model: {kind: lstm, input: [1, 1, 64], classes: 256', said)

  def test_bad_data_end_with_what_was_found(self):
    self.write('huge/a/0.png', png(60000, 60000, b''))
    self.write('huge/b/0.png', png(2, 2, b'1234'))
    self.write('table/rows.csv', b'1,2')
    with zipfile.ZipFile(self.data / 'pickled.npz', 'w') as archive:
      archive.writestr('x.npy', npy('|u1', (1, 2, 2), b'1234'))
      archive.writestr('y.npy', npy('|O', (1,), b"cos\nsystem\n(S'id'\ntR."))
    for name, texts in (
      ('huge', ('a/0.png: claims 60000x60000 pixels',)),
      ('table', ('found 1 .csv', 'expected IDX')),
      ('pickled.npz', ('y.npy', 'pickled Python objects', 'never read')),
      ('nothing', ('no such file or folder',)),
    ):
      said = self.check('--data', self.data / name, status=1)
      for text in texts:
        self.assertIn(text, said)


if __name__ == '__main__':
  swarm.main()
