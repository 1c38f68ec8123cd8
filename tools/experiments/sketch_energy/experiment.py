"""Entries of the codec sketch with equal shares of k for each slice, or by the energy that tables show: a model in
numpy, no part of the program. What is measured stands in expected.md.

Reading: At equal rates entries by energy gain nothing on digits, so nothing was built. The large difference comes
from a rate that one seed chose. The text was not measured.
"""

import functools
import importlib
import os
import pathlib
import statistics

from counting import interval95
from lib import table

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEXT = os.environ.get("STARLING_TEXT", "")
STEPS, TRIAL, SEEDS = 600, 101, 5
DENSITY, CELLS, CANDIDATES, ROWS, BLOCK, SCALED, OWNERS = 0.01, 0.2, 4, 3, 256, 512, 4
CONTEXT, EMBEDDED, HIDDEN = 8, 32, 384
RATES = [0.0625 * 2**i for i in range(9)]
FIRST_RATE = 0.5
TODAY = "4 slices"
# slices, tables (0: one a slice), whether an owner's k is shared by its slices
WAYS = {
  TODAY: (4, 0, False),
  "64 slices": (64, 0, False),
  "64, k by energy": (64, 0, True),
  "64, one table an owner, k by energy": (64, OWNERS, True),
  "one table": (1, 0, False),
}


@functools.cache
def numpy():
  try:
    return importlib.import_module("numpy")
  except ImportError:
    raise SystemExit("sketch_energy: needs numpy: pip install numpy, in a virtual environment") from None


def bf16(x):
  np = numpy()
  bits = x.astype(np.float32).view(np.uint32)
  return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


class Table:
  """Estimates of some elements of a vector, by their indices, from a count sketch as the program makes it."""

  def __init__(self, indices):
    np = numpy()
    self.indices = indices
    self.blocks = -(-len(indices) // BLOCK)
    self.columns = max(BLOCK, int(np.ceil(CELLS / ROWS * len(indices))))

  def estimates(self, vector, rng):
    np = numpy()
    padded = np.zeros(self.blocks * BLOCK, np.float32)
    padded[: len(self.indices)] = vector[self.indices]
    rows = []
    for _ in range(ROWS):
      offsets = rng.integers(self.columns, size=(self.blocks, 1))
      signs = rng.choice(np.array([-1, 1], np.float32), size=(self.blocks, 1))
      cells = ((offsets + np.arange(BLOCK)) % self.columns).ravel()
      sums = np.bincount(cells, (padded.reshape(-1, BLOCK) * signs).ravel(), self.columns)
      rows.append((self.in_int8(sums, rng)[cells].reshape(-1, BLOCK) * signs).ravel()[: len(self.indices)])
    a, b, c = rows
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))  # the median

  @staticmethod
  def in_int8(sums, rng):
    np = numpy()
    padded = np.zeros(-(-len(sums) // SCALED) * SCALED, np.float32)
    padded[: len(sums)] = sums
    padded = padded.reshape(-1, SCALED)
    scale = np.maximum(np.abs(padded).max(axis=1, keepdims=True) / 127, 1e-30)
    return (np.floor(padded / scale + rng.random(padded.shape, np.float32)) * scale).ravel()[: len(sums)]


class Chooser:
  """Which elements an entry of each owner counts."""

  def __init__(self, way, size):
    np = numpy()
    slices, tables, shared = WAYS[way]
    edges = [size * i // slices for i in range(slices + 1)]
    cut = [np.arange(a, b) for a, b in zip(edges, edges[1:])]
    owned = [cut[owner::OWNERS] for owner in range(OWNERS)] if shared else [[one] for one in cut]
    if tables:
      owned = [[np.concatenate(each)] for each in owned]
    self.owned = [[Table(indices) for indices in each] for each in owned]

  def choose(self, vector, rng):
    np = numpy()
    chosen = []
    for tables in self.owned:
      indices = np.concatenate([each.indices for each in tables])
      k = int(np.ceil(DENSITY * len(indices)))
      estimates = np.abs(np.concatenate([each.estimates(vector, rng) for each in tables]))
      asked = indices[np.argpartition(-estimates, CANDIDATES * k)[: CANDIDATES * k]]
      chosen.append(asked[np.argpartition(-np.abs(vector[asked]), k)[:k]])
    return np.concatenate(chosen)


class Network:
  """Dense layers with relu between them, over one flat vector; `embedded` symbols come first if there are any."""

  def __init__(self, sizes, rng, symbols=0):
    np = numpy()
    shapes = [(symbols, EMBEDDED)] if symbols else []
    for a, b in zip(sizes, sizes[1:]):
      shapes += [(a, b), (b,)]
    self.flat = np.concatenate(
      [
        (rng.normal(size=shape) * (0.3 if i == 0 and symbols else (2 / shape[0]) ** 0.5)).ravel()
        if len(shape) == 2
        else np.zeros(shape)
        for i, shape in enumerate(shapes)
      ]
    ).astype(np.float32)
    self.gradient = np.zeros_like(self.flat)
    self.parts, self.gradients, at = [], [], 0
    for shape in shapes:
      size = int(np.prod(shape))
      self.parts.append(self.flat[at : at + size].reshape(shape))
      self.gradients.append(self.gradient[at : at + size].reshape(shape))
      at += size
    self.symbols = symbols

  def loss(self, x, labels, learn=False):
    np, first = numpy(), 1 if self.symbols else 0
    inputs = [self.parts[0][x].reshape(len(x), -1) if self.symbols else x]
    layers = range(first, len(self.parts), 2)
    for i in layers:
      out = inputs[-1] @ self.parts[i] + self.parts[i + 1]
      inputs.append(np.maximum(out, 0) if i + 2 < len(self.parts) else out)
    logits = inputs.pop()
    logits = logits - logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    value = -float(logs[np.arange(len(x)), labels].mean())
    if not learn:
      return value
    back = np.exp(logs)
    back[np.arange(len(x)), labels] -= 1
    back /= len(x)
    for i, at in zip(reversed(layers), reversed(inputs)):
      self.gradients[i][:] = at.T @ back
      self.gradients[i + 1][:] = back.sum(axis=0)
      back = back @ self.parts[i].T * ((at > 0) if i > first else 1)
    if self.symbols:
      self.gradients[0][:] = 0
      np.add.at(self.gradients[0], x.ravel(), back.reshape(-1, EMBEDDED))
    return value


class Text:
  batch = 64

  def __init__(self):
    np = numpy()
    raw = np.frombuffer(pathlib.Path(TEXT).read_bytes(), np.uint8)
    self.known, codes = np.unique(raw, return_inverse=True)
    cut = len(codes) * 9 // 10
    self.train, test = codes[:cut], codes[cut:]
    self.tests = self.at(test, np.linspace(0, len(test) - CONTEXT - 1, 2000).astype(int))

  @staticmethod
  def at(codes, places):
    windows = codes[places[:, None] + numpy().arange(CONTEXT + 1)]
    return windows[:, :-1], windows[:, -1]

  def draw(self, rng):
    return self.at(self.train, rng.integers(len(self.train) - CONTEXT, size=self.batch))

  def network(self, rng):
    symbols = len(self.known)
    return Network([CONTEXT * EMBEDDED, HIDDEN, HIDDEN, symbols], rng, symbols)


class Digits:
  batch = 32

  def __init__(self):
    np, folder = numpy(), ROOT / "build" / "data" / "digits"

    def read(name, header):
      return np.frombuffer((folder / name).read_bytes(), np.uint8)[header:]

    images = read("train-images-idx3-ubyte", 16).reshape(-1, 784)[:4000].astype(np.float32) / 255
    tests = read("t10k-images-idx3-ubyte", 16).reshape(-1, 784)[:1000].astype(np.float32) / 255
    self.train = images, read("train-labels-idx1-ubyte", 8)[:4000]
    self.tests = tests, read("t10k-labels-idx1-ubyte", 8)[:1000]

  def draw(self, rng):
    some = rng.integers(len(self.train[0]), size=self.batch)
    return self.train[0][some], self.train[1][some]

  @staticmethod
  def network(rng):
    return Network([784, 256, 128, 64, 10], rng)


TASKS = {"text": Text, "digits": Digits}


@functools.cache
def task(name):
  return TASKS[name]()


@functools.cache
def trained(name, way, rate, seed):
  """Mean test loss over the last quarter of the steps, and the mean of the energy recalled."""
  np, data = numpy(), task(name)
  rng, hashes = np.random.default_rng(seed), np.random.default_rng(1000 + seed)
  network = data.network(rng)
  chooser, waiting = Chooser(way, network.flat.size), np.zeros_like(network.flat)
  losses, recalled = [], []
  for step in range(STEPS):
    loss = network.loss(*data.draw(rng), learn=True)
    if not np.isfinite(loss):
      return float("inf"), 0.0
    waiting += network.gradient
    chosen = chooser.choose(waiting, hashes)
    values = bf16(waiting[chosen])
    if step % 10 == 0:
      squares = np.sort(waiting**2)[-len(chosen) :]
      recalled.append(float((values**2).sum() / max(squares.sum(), 1e-30)))
    network.flat[chosen] -= rate * values
    waiting[chosen] -= values
    if step >= STEPS * 3 / 4 and step % 10 == 0:
      losses.append(network.loss(*data.tests))
  return statistics.mean(losses), statistics.mean(recalled)


def best_rate(name, way):
  at = RATES.index(FIRST_RATE)
  while True:
    near = [i for i in (at - 1, at, at + 1) if 0 <= i < len(RATES)]
    best = min(near, key=lambda i: trained(name, way, RATES[i], TRIAL)[0])
    if best == at:
      return RATES[at]
    at = best


TABLES = [
  ("loss", ["task", "way", "rate"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = range(1, 2 if quick else SEEDS * repeat + 1)
  rows = []
  for name in TASKS:
    base = None
    for way in WAYS:
      rate = best_rate(name, way)
      found = [trained(name, way, rate, seed) for seed in seeds]
      losses = [one[0] for one in found]
      base = base or losses
      more = [100 * (one / other - 1) for one, other in zip(losses, base)]
      against = "" if way == TODAY else "{:+.1f} % (± {:.1f})".format(*interval95(more))
      rows.append(
        [
          name,
          way,
          f"{rate:g}",
          f"{statistics.mean(losses):.4f}",
          against,
          "{:.3f} ± {:.3f}".format(*interval95([one[1] for one in found])),
        ]
      )
      say(f"{rows[-1]}")
  return (
    f"Seeds 1 to {seeds[-1]}, ± a 95 % interval (Student's t), differences paired by seed; rates by trial seed "
    f"{TRIAL}, a worse one on either side.\n\n"
    + table(["task", "way", "rate", "late loss", f"against {TODAY}", "energy recalled"], rows)
  )
