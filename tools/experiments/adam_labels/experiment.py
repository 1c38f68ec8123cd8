"""What Adam costs where the labels of agents differ, and what helps.

Reading: By label AdamW in pairs ends 3 to 6 points below SGD with momentum that travels. No other rate, no mean of all
after each step, and no updates helped.
"""

from counting import interval95, plus_minus
from lib import table
from simulated import data, data_name, pairs_of_digits, simulate, two_at_a_time

STEPS = 600
CONFIG = pairs_of_digits("adam_labels", STEPS)
FLAGS = ["--every", 2, "--latency", "10ms", "--rate", "1gbit", "--compute", "20ms"]
SEEDS = range(11, 16)
PARTS = {"by label": {"sharding": "labels"}, "Dirichlet .1": {"sharding": "dirichlet", "alpha": 0.1}}
ADAM = {"optimizer__kind": "adamw", "optimizer__momentum": 0, "exchange__share": "[params]"}
UPDATES = {"exchange__kind": "group", "exchange__codec": "fp32", "exchange__source": "updates"}
SGD = "SGD, pairs, momentum travels"
ONE = "AdamW, one process, all data"
WAYS = {
  SGD: {},
  "AdamW at .001, pairs": {**ADAM, "optimizer__learning_rate": 0.001},
  "AdamW at .0003, pairs": {**ADAM, "optimizer__learning_rate": 0.0003},
  "AdamW at .003, pairs": {**ADAM, "optimizer__learning_rate": 0.003},
  "AdamW at .01, pairs": {**ADAM, "optimizer__learning_rate": 0.01},
  "AdamW at .001, group": {
    **ADAM,
    "optimizer__learning_rate": 0.001,
    "exchange__kind": "group",
    "exchange__codec": "fp32",
  },
  "AdamW at .001, updates, every step": {
    **ADAM,
    **UPDATES,
    "optimizer__learning_rate": 0.001,
    "exchange__update__codec": "fp32",
  },
  "AdamW at .001, updates, every 8 steps": {
    **ADAM,
    **UPDATES,
    "optimizer__learning_rate": 0.001,
    "exchange__update__codec": "bf16",
    "local_steps": 8,
  },
}


def accuracies(case):
  """At the end, of the agents and of one process with all the data."""
  way, part, seed = case
  baseline = ["--baseline", "serial"] if way == "AdamW at .001, pairs" else []
  summary, rows = simulate(
    CONFIG,
    4,
    [*FLAGS, *baseline, "--seed", seed],
    agent__data__path=data(),
    **{f"agent__data__{key}": value for key, value in PARTS[part].items()},
    **{f"swarm__{key}": value for key, value in WAYS[way].items()},
  )
  serial = [float(row["accuracy"]) for row in rows if row["series"] == "serial"]
  return summary["final"]["swarm"]["accuracy"], serial[-1] if serial else None


TABLES = [("accuracy", ["data", "way"])]


def run(repeat=1, quick=False, say=print):
  seeds = SEEDS[:1] if quick else SEEDS
  rows = []
  for part in PARTS:
    found = {}
    for way in WAYS:
      runs = two_at_a_time(accuracies, [(way, part, seed) for seed in seeds])
      found[way] = [100 * own for own, _ in runs]
      if runs[0][1] is not None:
        found[ONE] = [100 * serial for _, serial in runs]
    for way, values in found.items():
      less = [own - sgd for own, sgd in zip(values, found[SGD])]
      rows.append([part, way, plus_minus(*interval95(values)), "-" if way == SGD else plus_minus(*interval95(less))])
      say(f"{rows[-1]}")
  return (
    f"{data_name()}, 4 agents, {STEPS} steps, rng seeds from {SEEDS[0]} on, virtual time; ± a 95 % interval, "
    "differences paired by seed.\n\n" + table(["data", "way", "accuracy", "points above SGD"], rows)
  )
