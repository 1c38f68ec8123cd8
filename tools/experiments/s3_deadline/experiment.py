"""Test loss of RPS where blocks miss a deadline, beside injected loss of the same part; and with one slow agent.

Reading: Blocks that miss a deadline cost about what dropped blocks cost; three seeds show no more. A slow agent costs
little loss. Blocks are due to it only in rounds that it begins, so fewer are missed than expected.
"""

import statistics

from counting import interval95, is_same, plus_minus
from lib import table
from simulated import data, data_name, late_loss, simulate

CONFIG = """
swarm:
  name: deadline
  model: {kind: cnn}
  optimizer: {kind: sgd, learning_rate: 0.1, momentum: 0}
  batch: 16
  weight: equal
  exchange: {kind: group, codec: fp32, overlap: off, block: 256}
agent:
  data: {sharding: iid}
  checkpoint: {every: 60s}
"""
STEPS, AGENTS, SLOW = 300, 16, 7
EVALUATE_EVERY = 20  # steps, about
SAME_PERCENT = 5  # two losses are the same when the whole 95 % interval of their difference lies within this
INJECTED = ["--latency", "1ms"]
LATE = ["--latency", "10ms", "--jitter", "40ms"]
ONE_SLOW = [*LATE, "--speeds", ",".join("20" if a == SLOW else "1" for a in range(AGENTS))]
# name, intended %, flags, deadlines in ms, injected, about how long a round takes in ms
RUNS = [
  ("injected", 0, INJECTED, (50, 500), 0, 22),
  ("injected", 10, INJECTED, (50, 500), 0.1, 22),
  ("injected", 40, INJECTED, (50, 500), 0.4, 22),
  ("late, D = 60 ms", 0, LATE, (60, 60), 0, 120),
  ("late, D = 46 ms", 10, LATE, (46, 46), 0, 112),
  ("late, D = 34 ms", 40, LATE, (34, 34), 0, 88),
  ("one slow, D = 60 ms", 12.5, ONE_SLOW, (60, 60), 0, 140),
  ("one slow, D adapts", 12.5, ONE_SLOW, (50, 500), 0, 200),
]
NONE_LOST = {"injected": 0, "late": 3, "one slow": 3}  # the run that each kind is compared with


def percent(part, whole):
  return f"{100 * part / whole:.1f} %"


def measure(run, seed):
  name, _, flags, (shortest, longest), injected, round_ms = run
  summary, rows = simulate(
    CONFIG,
    AGENTS,
    [
      *flags,
      "--steps",
      STEPS,
      "--rate",
      "unlimited",
      "--compute",
      "20ms",
      "--seed",
      seed,
      "--every",
      EVALUATE_EVERY * round_ms / 1000,
    ],
    agent__data__path=data(),
    inject_loss=injected,
    swarm__exchange__deadline_min=f"{shortest}ms",
    swarm__exchange__deadline_max=f"{longest}ms",
  )
  slow = str(SLOW) if name.startswith("one slow") else None
  apart = [
    float(row["distance"]) for row in rows if row["series"] == "mean" and 0.75 * STEPS <= float(row["step"]) < STEPS
  ]
  return {
    "loss": late_loss(rows, "mean", STEPS * 16 * AGENTS),
    "own": late_loss([row for row in rows if row["agent"] != slow], "swarm", STEPS * 16),
    "apart": sum(apart) / len(apart),
    **summary["blocks"],
  }


def describe(run, results, base):
  name, intended = run[:2]
  total = {key: sum(result[key] for result in results) for key in results[0]}
  due, counted = total["due"] - total["averages_due"], total["counted"] - total["averages_counted"]
  loss = statistics.mean(result["loss"] for result in results)
  worse = plus_minus(*interval95([100 * (a["loss"] / b["loss"] - 1) for a, b in zip(results, base)]))
  return [
    name,
    f"{intended} %",
    percent(total["due"] - total["counted"], total["due"]),
    percent(due - counted, due),
    percent(total["averages_due"] - total["averages_counted"], total["averages_due"]),
    percent(total["old"], due),
    f"{loss:.4f}",
    worse,
    f"{total['own'] / len(results):.3f}",
    f"{total['apart'] / len(results):.2g}",
  ]


SEEDS = 3
TABLES = [
  ("loss", ["how", "intended"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
  results = []
  for cell in RUNS:
    results.append([measure(cell, seed) for seed in seeds])
    say(f"{cell[0]}, {cell[1]} %: {[round(result['loss'], 4) for result in results[-1]]}")
  rows = [describe(cell, own, results[NONE_LOST[cell[0].split(", ")[0]]]) for cell, own in zip(RUNS, results)]
  pairs = [[100 * (a["loss"] / b["loss"] - 1) for a, b in zip(results[3 + i], results[i])] for i in range(3)]
  against = ", ".join(
    f"{RUNS[i][1]} %: {plus_minus(*interval95(pair))}, "
    f"{'the same' if is_same(pair, SAME_PERCENT) else 'not shown to be the same'}"
    for i, pair in enumerate(pairs)
  )
  none, noise = interval95([result["loss"] for result in results[0]])
  return (
    f"{AGENTS} agents, {data_name()}, {STEPS} steps, rng seeds {seeds}; ± is a 95 % interval "
    f"(Student's t over the seeds). That of the loss without any lost: ± {100 * noise / none:.1f} %. Missed: "
    "of the blocks due, those that did not count in their round. Own models: those of "
    "all agents but the slow one, each just after a step of its own.\n\n"
    + table(
      [
        "how",
        "intended",
        "missed",
        "contributions",
        "averages",
        "last payload counted, of contributions",
        "test loss",
        "against none lost, seed by seed",
        "of own models",
        "models apart (rms)",
      ],
      rows,
    )
    + f"\nLate against injected loss, seed by seed, at {against} (margin: {SAME_PERCENT} %).\n"
  )
