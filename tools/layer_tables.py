#!/usr/bin/env python3
"""Writes configs/layers/*.yaml: params and FLOPs of each layer of four published networks, from their definitions.

tools/layer_tables.py            writes them
tools/layer_tables.py --check    says whether they are what it would write
"""

import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "configs" / "layers"
FLOPS_PER_S = 3.5e12  # sustained by the GPU that the tables' times are for


class Network:
  """Layers in the order of forward. A multiplication and its addition are two FLOPs."""

  def __init__(self, channels, side):
    self.layers, self.channels, self.side = [], channels, side

  def add(self, name, params, flops):
    assert all(name != other for other, _, _ in self.layers), name
    self.layers.append((name, params, flops))

  def conv(self, name, out, kernel, stride=1, pad=None, norm=False, bias=False):
    """`kernel`: a side, or (height, width). `pad` None: the output has the input's size, where the stride is 1."""
    height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if pad is None:
      assert height % 2 == 1 and width % 2 == 1
      self.side = (self.side - 1) // stride + 1
    else:
      self.side = (self.side + 2 * pad - height) // stride + 1
    weights = self.channels * out * height * width
    self.add(name, weights + (out if bias else 0), 2 * weights * self.side**2)
    if norm:
      self.add(f"{name}.bn", 2 * out, 2 * out * self.side**2)
    self.channels = out

  def linear(self, name, inputs, out):
    self.add(name, inputs * out + out, 2 * inputs * out)

  def branches(self, *branches):
    """Each gets what came before; what they give is laid side by side."""
    channels, side, total = self.channels, self.side, 0
    for branch in branches:
      self.channels, self.side = channels, side
      branch()
      total += self.channels
    self.channels = total

  def totals(self):
    return sum(params for _, params, _ in self.layers), sum(flops for _, _, flops in self.layers)


def vgg16():
  net = Network(3, 224)
  for block, (width, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 1):
    for i in range(1, count + 1):
      net.conv(f"conv{block}_{i}", width, 3, bias=True)
    net.side //= 2
  for name, inputs, out in [("fc6", 512 * 7 * 7, 4096), ("fc7", 4096, 4096), ("fc8", 4096, 1000)]:
    net.linear(name, inputs, out)
  return net


def resnet50():
  net = Network(3, 224)
  net.conv("conv1", 64, 7, stride=2, pad=3, norm=True)
  net.side //= 2
  for stage, (width, count) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], 2):
    for i in range(count):
      stride = 2 if i == 0 and stage > 2 else 1
      channels, side = net.channels, net.side
      name = f"conv{stage}_{i + 1}"
      net.conv(f"{name}a", width, 1, norm=True)
      net.conv(f"{name}b", width, 3, stride=stride, norm=True)  # where PyTorch has the stride
      net.conv(f"{name}c", 4 * width, 1, norm=True)
      if i == 0:
        net.channels, net.side = channels, side
        net.conv(f"{name}shortcut", 4 * width, 1, stride=stride, norm=True)
  net.linear("fc", 2048, 1000)
  return net


def inception4():
  net = Network(3, 299)

  def chain(name, *convs):
    """(out, kernel) with the same size, or (out, kernel, stride) without padding."""

    def add():
      for i, (out, kernel, *stride) in enumerate(convs):
        net.conv(f"{name}.{i}", out, kernel, *(stride or [1]), pad=0 if stride else None, norm=True)

    return add

  def split(name, before, *last):
    """A chain whose end is two convolutions side by side."""

    def add():
      chain(name, *before)()
      net.branches(*[chain(f"{name}.{'lr'[i]}", conv) for i, conv in enumerate(last)])

    return add

  def pool():
    net.side = (net.side - 3) // 2 + 1

  def inception_a(name):
    net.branches(
      chain(f"{name}.0", (96, 1)),
      chain(f"{name}.1", (64, 1), (96, 3)),
      chain(f"{name}.2", (64, 1), (96, 3), (96, 3)),
      chain(f"{name}.3", (96, 1)),
    )

  def inception_b(name):
    net.branches(
      chain(f"{name}.0", (384, 1)),
      chain(f"{name}.1", (192, 1), (224, (1, 7)), (256, (7, 1))),
      chain(f"{name}.2", (192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
      chain(f"{name}.3", (128, 1)),
    )

  def inception_c(name):
    net.branches(
      chain(f"{name}.0", (256, 1)),
      split(f"{name}.1", [(384, 1)], (256, (1, 3)), (256, (3, 1))),
      split(f"{name}.2", [(384, 1), (448, (3, 1)), (512, (1, 3))], (256, (1, 3)), (256, (3, 1))),
      chain(f"{name}.3", (256, 1)),
    )

  chain("stem", (32, 3, 2), (32, 3, 1), (64, 3))()
  net.branches(pool, chain("stem_3a", (96, 3, 2)))
  net.branches(
    chain("stem_4a.0", (64, 1), (96, 3, 1)), chain("stem_4a.1", (64, 1), (64, (1, 7)), (64, (7, 1)), (96, 3, 1))
  )
  net.branches(chain("stem_5a", (192, 3, 2)), pool)
  for i in range(4):
    inception_a(f"a{i + 1}")
  net.branches(chain("reduce_a.0", (384, 3, 2)), chain("reduce_a.1", (192, 1), (224, 3), (256, 3, 2)), pool)
  for i in range(7):
    inception_b(f"b{i + 1}")
  net.branches(
    chain("reduce_b.0", (192, 1), (192, 3, 2)),
    chain("reduce_b.1", (256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2)),
    pool,
  )
  for i in range(3):
    inception_c(f"c{i + 1}")
  net.linear("fc", net.channels, 1000)
  return net


def lstm():
  words, hidden, tokens = 10000, 1500, 35
  net = Network(0, 0)
  net.add("embedding", words * hidden, 0)  # a look-up
  for i in (1, 2):
    weights = 4 * hidden * 2 * hidden
    net.add(f"lstm{i}", weights + 8 * hidden, 2 * weights * tokens)
  net.add("decoder", hidden * words + words, 2 * hidden * words * tokens)
  return net


# file: (name, definition, what one sample is, where it is from, samples a step, params as published)
TABLES = {
  "vgg16": (
    "VGG16",
    vgg16,
    "an image of 224 x 224",
    "configuration D of Simonyan and Zisserman 2014, arXiv:1409.1556",
    16,
    138357544,
  ),
  "resnet50": ("ResNet-50", resnet50, "an image of 224 x 224", "He et al. 2015, arXiv:1512.03385", 32, 25557032),
  "inception4": (
    "Inception-v4",
    inception4,
    "an image of 299 x 299",
    "Szegedy et al. 2016, arXiv:1602.07261",
    16,
    42679816,
  ),
  "lstm": (
    "LSTM",
    lstm,
    "35 words of Penn Treebank",
    "two layers of 1,500, the large one of Zaremba et al. 2014, arXiv:1409.2329",
    100,
    66034000,
  ),
}


def text(key):
  name, build, sample, source, samples, published = TABLES[key]
  net = build()
  params, flops = net.totals()
  assert params == published, f"{name}: {params} params, not {published}"
  backward_ms = round(1e3 * 2 * flops * samples / FLOPS_PER_S)
  lines = [
    f"# {name}: {source}.",
    f"# Written by tools/layer_tables.py. {params:,} params, {flops / 1e9:.1f} GFLOP a sample ({sample}).",
    f"model: {name}",
    (
      f"# {samples} samples a step on a GPU that does {FLOPS_PER_S / 1e12:g} TFLOP/s; backward is twice the "
      "work of forward. Divided by FLOPs."
    ),
    f"backward: {backward_ms}ms",
    "layers:   # in the order of forward; each: [params, FLOPs of a sample]",
  ]
  return "\n".join([*lines, *(f"  {name}: [{params}, {flops}]" for name, params, flops in net.layers)]) + "\n"


def main():
  stale = []
  for key in TABLES:
    path = FOLDER / f"{key}.yaml"
    if "--check" not in sys.argv[1:]:
      path.write_text(text(key))
    elif not path.exists() or path.read_text() != text(key):
      stale.append(path.name)
  if stale:
    sys.exit(f"not what tools/layer_tables.py writes: {', '.join(stale)}")


main()
