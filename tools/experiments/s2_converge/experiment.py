"""Loss of a small VGG and an LSTM whose agents send 1 and .1 % of their gradients, against whole ones.

Reading: One percent of the gradients learns like plain SGD without momentum. A tenth of a percent does so only with a
warm-up of a third of the run, which sends most. Against SGD with momentum neither is shown.
"""

import os
import pathlib
import statistics
import tempfile

from counting import interval95, plus_minus
from lib import table
from simulated import CIFAR, CIFAR_RECORD, late_loss, simulate, two_at_a_time

AGENTS, STEPS, BATCH, SEEDS, GOAL = 8, 600, 4, (1, 2, 3, 4, 5), 2  # the goal in percent
TEXT = os.environ.get("STARLING_TEXT", "")  # a file of plain ASCII, 300 KB and more
PHOTOGRAPHS, TEST_PHOTOGRAPHS, LETTERS, TEST_LETTERS = 9600, 1000, 4800 * 32 + 1, 500 * 32 + 1
MODELS = {
  "vgg": ("{kind: vgg, input: [3, 32, 32], classes: 10, channels: 8, hidden: [64]}", 0.1),
  "lstm": ("{kind: lstm, input: [1, 1, 32], classes: 128, hidden: [64, 64]}", 1),
}
SENT = {"pipeline": "on", "merge": "auto", "reply": AGENTS}
WAYS = {
  "dense": {"codec": "fp32"},
  "1 %": {"codec": "topk", "density": 0.01, **SENT},
  ".1 %, warm-up": {"codec": "dgc", "density": 0.001, "momentum": 0, "warmup": 200, **SENT},
}
# The LSTM longer, each way at its best rate.
LONGER_STEPS = 1800
LONGER = {
  "dense": (2.8, WAYS["dense"]),
  "1 %": (2.8, WAYS["1 %"]),
  ".1 %, warm-up of 600": (2, {**WAYS[".1 %, warm-up"], "warmup": 600}),
}
# The VGG, each way at its best rate, which falls by a cosine: without that three evaluations differ by a tenth.
TUNED = {
  "dense": (0.14, WAYS["dense"]),
  "1 %": (0.1, WAYS["1 %"]),
  ".1 %, warm-up": (0.1, WAYS[".1 %, warm-up"]),
  "dense, momentum .9": (0.02, WAYS["dense"], {"swarm__optimizer__momentum": 0.9}),
}
CONFIG = """
swarm:
  name: converge
  model: %s
  optimizer: {kind: sgd, learning_rate: %g, momentum: 0}
  batch: %d
  weight: equal
  exchange: {kind: group, source: gradients, overlap: "off", deadline_min: 50ms, deadline_max: 500ms}
agent: {data: {sharding: iid}, threads: 1}
"""
FLAGS = ["--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "2.2"]


def write_data(folder):
  """The parts of CIFAR-10 and of the text that are trained and judged on."""
  if not CIFAR or not TEXT:
    raise SystemExit("s2_converge: name CIFAR-10's folder in STARLING_CIFAR and a text in STARLING_TEXT")
  for name in MODELS:
    (folder / name).mkdir()
  photographs = (pathlib.Path(CIFAR) / "data_batch_1.bin").read_bytes()
  test = (pathlib.Path(CIFAR) / "test_batch.bin").read_bytes()
  (folder / "vgg" / "data_batch_1.bin").write_bytes(photographs[: PHOTOGRAPHS * CIFAR_RECORD])
  (folder / "vgg" / "test_batch.bin").write_bytes(test[: TEST_PHOTOGRAPHS * CIFAR_RECORD])
  text = pathlib.Path(TEXT).read_bytes()
  (folder / "lstm" / "train.txt").write_bytes(text[:LETTERS])
  (folder / "lstm" / "test.txt").write_bytes(text[-TEST_LETTERS:])


def loss(folder, model, steps, seed, more, rate, update, own=None):
  settings = {**more, **(own or {}), **{f"swarm__exchange__update__{key}": value for key, value in update.items()}}
  _, rows = simulate(
    CONFIG % (MODELS[model][0], rate, BATCH),
    AGENTS,
    [*FLAGS, "--steps", steps, "--seed", seed],
    agent__data__path=folder / model,
    **settings,
  )
  return late_loss(rows, "mean", steps * BATCH * AGENTS)


def compared(name, ways, found, seeds):
  """Rows of one network: each way's mean loss, and how much it is above that of the dense one, seed by seed."""
  rows = []
  for way in ways:
    against = [100 * (found[name, way, seed] / found[name, "dense", seed] - 1) for seed in seeds]
    mean, half = interval95(against)
    rows.append(
      [
        name,
        way,
        f"{statistics.mean(found[name, way, seed] for seed in seeds):.4f}",
        "" if way == "dense" else plus_minus(mean, half),
        "" if way == "dense" else "yes" if mean + half <= GOAL else "no",
      ]
    )
  return rows


def measure(cells, seeds, say):
  """The table of cells: name, network, steps, of each way its rate, update and settings, and settings of all."""
  with tempfile.TemporaryDirectory() as folder:
    write_data(pathlib.Path(folder))

    def one(case):
      (name, model, steps, ways, more), way, seed = case
      value = loss(pathlib.Path(folder), model, steps, seed, more, *ways[way])
      say(f"{name} {way} {seed}: {value:.4f}")
      return (name, way, seed), value

    found = dict(two_at_a_time(one, [(cell, way, seed) for seed in seeds for cell in cells for way in cell[3]]))
  rows = [row for name, _, _, ways, _ in cells for row in compared(name, ways, found, seeds)]
  return table(["network", "sent", "loss", "against dense", f"interval below +{GOAL} %"], rows)


def tuned():
  cosine = {"swarm__optimizer__schedule": "cosine", "swarm__stop_after": STEPS}
  return "vgg, tuned, cosine", "vgg", STEPS, TUNED, cosine


TABLES = [
  ("loss", ["network", "sent"]),
]


def run(repeat=1, quick=False, say=print):
  short = [
    (model, model, STEPS, {way: (rate, update) for way, update in WAYS.items()}, {})
    for model, (_, rate) in MODELS.items()
  ]
  longer = ("lstm, 1,800 steps", "lstm", LONGER_STEPS, LONGER, {})
  return measure([*short, longer, tuned()], SEEDS[:1] if quick else SEEDS, say)
