"""Rounds in which the distance between the agents falls to a tenth, against the formula of `starling topology`.

Reading: Nothing but the graph decides how fast the models agree. Pairs agree as fast as one random matching a round,
not faster. Busy partners turn proposals away, which uses up the rest.
"""

import math
import re
import subprocess

from lib import STARLING, table
from simulated import simulate

CONFIG = """
swarm:
  name: consensus
  model: {{kind: quadratic, dimension: 1000}}
  optimizer: {{kind: sgd, learning_rate: 0.1, momentum: 0, schedule: step, decay_every: {steps}, decay: 0.000001}}
  weight: equal
  exchange: {{kind: {kind}, codec: fp32, overlap: off, deadline_min: 50ms, deadline_max: 500ms}}
  topology: {{kind: {topology}}}
agent:
  checkpoint: {{every: 60s}}
"""
AGENTS, STEPS, ROUNDS = 16, 60, 220
GRAPHS = ["ring", "torus", "exponential", "star", "full"]
FAR, NEAR = 0.1, 1e-5  # of the distance that steps keep up: above, some still step (the swarm's clock comes by
# gossip); below, fp32 rounds


def formula(kind):
  """None: one round is enough."""
  printed = subprocess.run(
    [str(STARLING), "topology", "--kind", kind, "--agents", str(AGENTS)], check=True, capture_output=True, text=True
  ).stdout
  number = re.search(r"rounds per 10x\s+([0-9.]+)", printed)
  return float(number[1]) if number else None


def distances(kind, topology, seed):
  """(step, distance between the agents), after each exchange."""
  config = CONFIG.format(steps=STEPS, kind=kind, topology=topology)
  _, rows = simulate(
    config,
    AGENTS,
    [
      "--steps",
      STEPS + ROUNDS,
      "--latency",
      "1ms",
      "--rate",
      "unlimited",
      "--compute",
      "20ms",
      "--every",
      "0.02",
      "--seed",
      seed,
    ],
  )
  return [(int(row["step"]), float(row["distance"])) for row in rows if row["series"] == "mean"]


def measure(kind, topology, seed):
  """Rounds per factor of ten once the steps have no length, by least squares over the logarithm. 0: each round leaves
  no more than rounding of what a step moves the agents apart; infinite: they do not come nearer."""
  points = distances(kind, topology, seed)
  apart = dict(points)[STEPS]
  points = [
    (step, math.log10(distance))
    for step, distance in points
    if STEPS < step < STEPS + ROUNDS and NEAR * apart < distance < FAR * apart
  ]
  if len(points) < 3:
    a_step = dict(distances("none", "matching", seed))[2]  # a model is looked at as it was before the steps under way
    return 0 if apart < NEAR * a_step else math.inf
  mean_step = sum(step for step, _ in points) / len(points)
  mean_log = sum(log for _, log in points) / len(points)
  slope = sum((step - mean_step) * (log - mean_log) for step, log in points) / sum(
    (step - mean_step) ** 2 for step, _ in points
  )
  return -1 / slope


SEEDS = 3
TABLES = [
  ("rounds per 10x", ["exchange"]),
]


def run(repeat=1, quick=False, say=print):
  seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
  rows = []
  for kind, topology in [("neighborhood", graph) for graph in GRAPHS] + [("pairwise", "matching")]:
    expected = formula(topology)
    values = [measure(kind, topology, seed) for seed in seeds]
    name = f"{kind}, {'anybody' if topology == 'matching' else topology}"
    say(f"{name}: formula {expected}, measured {values}")
    if expected is None or {0, math.inf} & set(values):
      rows.append([name, expected or "one round", "one round" if not any(values) else values, ""])
      continue
    middle = sum(values) / len(values)
    rows.append(
      [
        name,
        f"{expected:g}",
        f"{middle:.1f} ({min(values):.1f}..{max(values):.1f})",
        f"{100 * (middle / expected - 1):+.0f} %",
      ]
    )
  return (
    f"{AGENTS} agents, {STEPS} steps apart, then {ROUNDS} rounds of exchange alone, rng seeds {seeds}.\n\n"
    + table(["exchange", "formula, rounds per 10x", "measured", "difference"], rows)
  )
