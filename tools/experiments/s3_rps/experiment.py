"""Final test loss of RPS (params) and of shared gradients at several rates of lost blocks.

Reading: Sharing params loses little where blocks are lost, within the goals by the means only. Sharing gradients is
far worse with a hundredth of the blocks lost. Momentum that is shared costs nothing.
"""

from counting import interval95, plus_minus
from lib import table
from simulated import CIFAR, data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: rps
  model: {kind: cnn}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0}
  batch: 16
  weight: equal
  exchange: {kind: group, codec: fp32, overlap: off, block: 1024, deadline_min: 50ms, deadline_max: 500ms}
agent:
  data: {sharding: iid}
  checkpoint: {every: 60s}
"""
# On photographs an end at rate 0, so that no run is judged by its last batch.
ON_CIFAR = {"swarm__model__input": "[3, 32, 32]", "swarm__optimizer__schedule": "cosine"}
STEPS, SETTINGS = (1200, ON_CIFAR) if CIFAR else (300, {})
MOMENTUM = {"swarm__optimizer__momentum": 0.9, "swarm__optimizer__learning_rate": 0.01}
SHARED = {
  "params": {},
  "params, own momentum": MOMENTUM,
  "gradients": {"swarm__exchange__source": "gradients", "repair": "off"},
  "params and momentum": {**MOMENTUM, "swarm__exchange__share": "[params, momentum]"},
}
RUNS = (
  [("params", p) for p in (0, 0.01, 0.05, 0.1, 0.2, 0.4)]
  + [("gradients", p) for p in (0, 0.01, 0.05)]
  + [(shared, p) for shared in ("params, own momentum", "params and momentum") for p in (0, 0.4)]
)
QUICK = [("params", 0), ("params", 0.4), ("gradients", 0.05)]
FLAGS = ["--steps", STEPS, "--latency", "1ms", "--rate", "unlimited", "--compute", "20ms", "--every", "1000"]


def final(case):
  shared, p, seed = case
  summary, _ = simulate(
    CONFIG,
    16,
    [*FLAGS, "--seed", seed],
    agent__data__path=data(CIFAR),
    inject_loss=p,
    **SETTINGS,
    **SHARED[shared],
  )
  return summary["final"]["swarm"]


SEEDS = 3
TABLES = [
  ("loss", ["shared", "lost"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
  losses, apart, accuracy = {}, {}, {}
  runs = QUICK if quick else RUNS
  finals = iter(two_at_a_time(final, [(shared, p, seed) for shared, p in runs for seed in seeds]))
  for shared, p in runs:
    results = [next(finals) for _ in seeds]
    losses[shared, p] = [result["loss"] for result in results]
    accuracy[shared, p] = [result["accuracy"] for result in results]
    apart[shared, p] = [result["distance"] for result in results]
    say(f"{shared} at {100 * p:g} %: {losses[shared, p]}")
  rows = []
  for (shared, p), values in losses.items():
    # Of each seed against the same seed without loss. Gradients are an alternative to params; what has a momentum
    # is compared with itself.
    reference = losses["params" if shared == "gradients" else shared, 0]
    worse = interval95([100 * (a / b - 1) for a, b in zip(values, reference)])
    rows.append(
      [
        shared,
        f"{100 * p:g} %",
        f"{sum(values) / len(values):.4f}",
        plus_minus(*worse),
        f"{100 * sum(accuracy[shared, p]) / len(values):.1f} %",
        f"{max(apart[shared, p]):.2g}",
      ]
    )
  base, noise = interval95(losses["params", 0])
  return (
    f"16 agents, {data_name(CIFAR)}, {STEPS} steps, rng seeds {seeds}; ± is a 95 % interval (Student's t "
    f"over the seeds). That of the loss without any lost: ± {100 * noise / base:.1f} %.\n\n"
    + table(["shared", "lost", "test loss", "against no loss, seed by seed", "accuracy", "models apart (rms)"], rows)
  )
