"""Test loss after the same samples and steps: serial SGD, D-PSGD on a ring, all-reduce.

Reading: At a small rate D-PSGD follows serial SGD; a ring of sixteen falls behind. At a large rate rings of eight and
more fall behind, exponential graphs less. All-reduce does not, so mixing is what costs.
"""

from counting import interval95, plus_minus
from lib import table
from simulated import CIFAR, data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: samples
  model: {kind: cnn}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0, schedule: cosine}
  weight: equal
  exchange: {kind: neighborhood, codec: fp32, overlap: off, deadline_min: 50ms, deadline_max: 500ms}
  topology: {kind: ring}
agent:
  data: {sharding: iid}
  checkpoint: {every: 60s}
"""
BATCH = 64
STEPS, SETTINGS = (1400, {"swarm__model__input": "[3, 32, 32]"}) if CIFAR else (400, {})
FLAGS = ["--steps", STEPS, "--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "1000"]
CASES = [(1, ""), (4, "ring"), (8, "ring"), (16, "ring"), (8, "exponential"), (16, "exponential")]
QUICK = [(1, ""), (8, "ring")]
RATES = [0.1, 0.03] if CIFAR else [0.1]


def name_of(n, graph):
  return f"D-PSGD {graph}, n = {n}" if graph else "serial SGD"


def final(case):
  rate, n, graph, seed = case
  baseline = ["--baseline", "allreduce"] if (n, graph) == (8, "ring") else []
  return simulate(
    CONFIG,
    n,
    [*FLAGS, "--seed", seed, *baseline],
    agent__data__path=data(CIFAR),
    swarm__batch=BATCH // n,
    swarm__optimizer__learning_rate=rate,
    swarm__topology__kind=graph or "ring",
    **SETTINGS,
  )[0]["final"]


SEEDS = 3
TABLES = [
  ("loss", ["rate", "way"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
  kinds = [(rate, n, graph) for rate in RATES for n, graph in (QUICK if quick else CASES)]
  finals = iter(two_at_a_time(final, [(*kind, seed) for kind in kinds for seed in seeds]))
  losses = {}
  for rate, n, graph in kinds:
    series = [next(finals) for _ in seeds]
    losses[rate, name_of(n, graph)] = [one["mean"]["loss"] for one in series]
    if "allreduce" in series[0]:
      losses[rate, f"all-reduce, n = {n}"] = [one["allreduce"]["loss"] for one in series]
    say(f"rate {rate}, {name_of(n, graph)}: {losses[rate, name_of(n, graph)]}")
  rows = []
  for (rate, name), values in losses.items():
    serial = losses[rate, "serial SGD"]
    worse = interval95([100 * (a / b - 1) for a, b in zip(values, serial)])
    rows.append([rate, name, f"{sum(values) / len(values):.4f}", plus_minus(*worse)])
  base, noise = interval95(losses[RATES[0], "serial SGD"])
  return (
    f"{data_name(CIFAR)}, {STEPS} steps of {BATCH} samples in all, rng seeds {seeds}; ± is a 95 % "
    f"interval (Student's t over the seeds). That of serial SGD's loss: ± {100 * noise / base:.1f} %.\n\n"
    + table(["rate", "", "test loss", "against serial, seed by seed"], rows)
  )
