"""Time of a round whose gradients are sent during backward, or when it has ended, on virtual time.

Reading: Sending during backward is never slower, and gains most where sending takes about as long as backward. Whole
gradients gain as well. A virtual clock does not show what selection costs.
"""

from counting import interval95, plus_minus
from lib import table
from simulated import simulate, two_at_a_time

AGENTS, STEPS = 4, 40
CONFIG = """
swarm:
  name: pipeline
  model: {kind: mlp, input: [1, 28, 28], classes: 10, hidden: [512, 512, 512, 512, 512, 512]}
  optimizer: {kind: sgd, learning_rate: 0.05, momentum: 0}
  batch: 16
  exchange: {kind: group, source: gradients, overlap: "off", deadline_min: 100ms, deadline_max: 10s}
agent: {data: {path: generated, sharding: iid}}
"""
CELLS = [("topk", 100), ("topk", 10), ("topk", 1000), ("fp32", 1000), ("fp32", 100)]


def one(case):
  """Milliseconds a round, and the losses of all evaluations."""
  codec, mbit, pipeline, seed = case
  flags = [
    "--latency",
    "1ms",
    "--rate",
    f"{mbit}mbit",
    "--compute",
    "100ms",
    "--every",
    "0.5",
    "--steps",
    STEPS,
    "--seed",
    seed,
  ]
  _, rows = simulate(
    CONFIG, AGENTS, flags, swarm__exchange__update__codec=codec, swarm__exchange__update__pipeline=pipeline
  )
  points = [(float(row["virtual_s"]), float(row["step"])) for row in rows if row["series"] == "mean"]
  points = [point for point in points if 2 <= point[1] < STEPS]
  (begin, first), (end, last) = points[0], points[-1]
  losses = [row["loss"] for row in rows if row["series"] == "mean"]
  return 1e3 * (end - begin) / (last - first), losses[-1]


def milliseconds(values):
  mean, half = interval95(values)
  return f"{mean:.1f}" + (f" (± {half:.1f})" if len(values) > 1 else "")


TABLES = [
  ("round", ["codec", "rate"]),
]


def run(repeat=1, quick=False, say=print):
  cells = CELLS[:1] if quick else CELLS
  cases = [(codec, mbit, pipeline, 1 + i) for codec, mbit in cells for i in range(repeat) for pipeline in ("off", "on")]
  say(f"{len(cases)} runs")
  found = dict(zip(cases, two_at_a_time(one, cases)))
  rows, same = [], 0
  for codec, mbit in cells:
    off, on = ([found[codec, mbit, pipeline, 1 + i] for i in range(repeat)] for pipeline in ("off", "on"))
    gains = [100 * (1 - b[0] / a[0]) for a, b in zip(off, on)]
    same += sum(a[1] == b[1] for a, b in zip(off, on))
    rows.append(
      [
        codec,
        f"{mbit} Mb/s",
        *(milliseconds([one[0] for one in runs]) for runs in (off, on)),
        plus_minus(*interval95(gains)),
      ]
    )
  pairs = len(cases) // 2
  return f"The last evaluation is the same, to all digits printed, in {same} of {pairs} pairs of runs.\n\n" + table(
    ["codec", "rate", "off, ms a round", "on, ms a round", "gain"], rows
  )
