"""Time of one exchange over its size, for gloo's collectives and for our streams: start-up, slope, what two cost.

Reading: Two messages cost more than one of both only up to a few kilobytes on our streams. Collectives gain from
merging somewhat longer. Two owners' slices travel side by side, so merging them can cost time.
"""

import collections
import math
import statistics

from lib import JOIN_MBIT, LinkedSwarm, Links, gloo, pace, table, wait_exchanges

MS, MBIT = 1, 50
SIZES = [1 << k for k in range(10, 23)]  # bytes
SYSTEMS = {"all-gather": ("allgather", 1 << 20), "ring all-reduce": ("ring", 1 << 22), "streams": (None, 1 << 19)}
TOGETHER = [1 << 17, 1 << 18]  # bytes of each of two slices
ASKED_FOR = {1: 1, 2: 4}  # update.slices for so many: they are at least twice as large as asked
WARM_UP, ROUNDS = 6, 16
LARGE, LARGE_WARM_UP, LARGE_ROUNDS = 1 << 17, 3, 8  # bytes, and fewer rounds: each takes seconds
WHOLE_MIN = 0.9  # of the rounds have an entry, or their time says nothing
CONFIG = """
swarm:
  name: experiment
  model: {{kind: quadratic, dimension: {dimension}}}
  optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0}}
  local_steps: 1
  exchange:
    kind: group
    source: gradients
    overlap: "off"
    update: {{codec: fp32, slices: {slices}}}
    deadline_min: 50ms
    deadline_max: 20s
  membership: {{probe_interval: 2s, probe_timeout: 1500ms}}
agent:
  checkpoint: {{every: 0s}}
  evaluate_every: 0s
"""


def streams(links, size, slices=1):
  """Milliseconds of a round, and the part of the rounds that had an entry of each slice."""
  links.tell(f"rate all {max(MBIT, JOIN_MBIT)}")
  # An owner is done once it has merged. It must not be at the next boundary while its entry is on its way: who hears
  # that it has gone on waits for it no longer.
  entry_ms = (len(links.nodes) - 1) * size * 8e-3 / MBIT
  config = CONFIG.format(dimension=size // 4, slices=ASKED_FOR[slices])
  with LinkedSwarm(config, links, its_pace=lambda i: pace(20 + 1.2 * entry_ms)) as swarm:
    links.tell(f"rate all {MBIT}")
    warm_up, rounds = (LARGE_WARM_UP, LARGE_ROUNDS) if size >= LARGE else (WARM_UP, ROUNDS)
    wait_exchanges(swarm.agents, warm_up, 120)
    seen = [len(agent.lines("exchange")) for agent in swarm.agents]
    wait_exchanges(swarm.agents, rounds, 240)
    lines = [line for agent, skip in zip(swarm.agents, seen) for line in agent.lines("exchange")[skip:]]
  if any(line["blocks_total"] != slices for line in lines):
    raise SystemExit(f"s2_cost: {size} bytes are {lines[0]['blocks_total']} slices, not {slices}")
  whole = [line["ms"] for line in lines if line["outcome"] == "done"]
  part = len(whole) / len(lines)
  return statistics.median(whole) if part >= WHOLE_MIN else math.nan, part


def fit(sizes, times):
  """Start-up, slope, R^2, largest relative distance from the line; each time counts by its relative distance."""
  weights = [1 / y**2 for y in times]
  total = sum(weights)
  x_mean = sum(w * x for w, x in zip(weights, sizes)) / total
  y_mean = sum(w * y for w, y in zip(weights, times)) / total
  slope = sum(w * (x - x_mean) * (y - y_mean) for w, x, y in zip(weights, sizes, times)) / sum(
    w * (x - x_mean) ** 2 for w, x in zip(weights, sizes)
  )
  start = y_mean - slope * x_mean
  line = [start + slope * x for x in sizes]
  mean = statistics.mean(times)
  r_squared = 1 - sum((y - z) ** 2 for y, z in zip(times, line)) / sum((y - mean) ** 2 for y in times)
  return start, slope, r_squared, max(abs(y / z - 1) for y, z in zip(times, line))


def label(size):
  return f"{size >> 10} KB" if size < 1 << 20 else f"{size >> 20} MB"


def measure(nodes, sizes, say):
  """(system, bytes) -> milliseconds, and ("together", bytes of each); the least part of rounds with an entry."""
  found, parts = {}, []

  def take(key, text, ms_and_part):
    found[key] = ms_and_part[0]
    parts.append(ms_and_part[1])
    say(f"{nodes} {text}: {ms_and_part[0]:.2f} ms, {ms_and_part[1]:.2f} with an entry")

  with Links(nodes, MS, MBIT) as links:
    for name, (algorithm, most) in SYSTEMS.items():
      for size in (one for one in sizes if one <= most):
        take(
          (name, size),
          f"{name} {label(size)}",
          (gloo(links, size // 4, 0.5, algorithm)["min_ms"], 1) if algorithm else streams(links, size),
        )
    for size in (one for one in TOGETHER if one in sizes):
      take(("together", size), f"two slices of {label(size)}", streams(links, 2 * size, 2))
  return found, min(parts)


def between(values, digits=2):
  """The median of the repeats, and the least and the most of them."""
  text = f"{statistics.median(values):.{digits}f}"
  return text if len(values) < 2 else f"{text} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def fits_of(nodes, name, runs):
  """A line of its own through each repeat's times."""
  fits = []
  for found in runs:
    sizes = sorted(size for system, size in found if system == name and math.isfinite(found[system, size]))
    fits.append(fit(sizes, [found[name, size] for size in sizes]))
  starts, slopes, r_squareds, offs = zip(*fits)
  return [
    name,
    nodes,
    between(starts, 1),
    between([1e6 * slope for slope in slopes], 0),
    between(r_squareds, 3),
    between([100 * off for off in offs], 0) + " %",
  ]


def over(runs, a, b, factor):
  """Of each repeat that has both times: factor x the time of a over that of b."""
  return [
    factor * found[a] / found[b]
    for found in runs
    if math.isfinite(found.get(a, math.nan)) and math.isfinite(found.get(b, math.nan))
  ]


def report(runs, sizes):
  """`runs`: for 4 and 8 nodes, what each repeat measured."""
  fits, doubled, together = [], [], []
  for nodes, repeats in runs.items():
    found = [times for times, _ in repeats]
    for name in SYSTEMS:
      fits.append(fits_of(nodes, name, found))
      ratios = [over(found, (name, size), (name, 2 * size), 2) for size in sizes[:-1]]
      doubled.append([name, nodes, *(between(one) if one else "" for one in ratios)])
    for size in TOGETHER:
      ratio = over(found, ("together", size), ("streams", 2 * size), 1)
      if ratio:
        together.append([nodes, label(size), between(ratio)])
  least = min(part for repeats in runs.values() for _, part in repeats)
  return (
    f"Of the streams' rounds {100 * least:.0f} % at least had an entry of each slice; under "
    f"{100 * WHOLE_MIN:.0f} % no time stands here. Each figure is the median of the repeats, with the least "
    "and the most of them in brackets.\n\nLines through the times of each repeat:\n\n"
    + table(["system", "nodes", "start-up, ms", "slope, ns a byte", "R^2", "farthest from the line"], fits)
    + "\ncom(a) + com(b) over com(a + b), a = b:\n\n"
    + table(["system", "nodes", *(label(size) for size in sizes[:-1])], doubled)
    + "\nStreams, two slices of two owners under way together, over one of both sizes:\n\n"
    + table(["nodes", "each", "together / both in one"], together)
  )


TABLES = [
  ("lines", ["system", "nodes"]),
  ("com(a) + com(b) over com(a + b)", ["system", "nodes"]),
  ("together", ["nodes", "each"]),
]


def run(repeat=1, quick=False, say=print):
  sizes = SIZES[::4] if quick else SIZES
  runs = collections.defaultdict(list)
  for _ in range(repeat):
    for nodes in (4,) if quick else (4, 8):
      runs[nodes].append(measure(nodes, sizes, say))
  return report(runs, sizes)
