"""Arithmetic of the measurements: pure functions over the lines of metrics.jsonl and lists of numbers.

A window is two wall-clock times. It includes its edges: what stood still at either end of it counts as standing still.
Of a pair's exchange both agents write a line, so only the line of the one that began it is counted.
"""

import math
import statistics

# Quantile .975 of Student's t with 1, 2, ... degrees of freedom (NIST/SEMATECH e-Handbook, table 1.3.6.7.2).
STUDENT_T = [
  12.706,
  4.303,
  3.182,
  2.776,
  2.571,
  2.447,
  2.365,
  2.306,
  2.262,
  2.228,
  2.201,
  2.179,
  2.160,
  2.145,
  2.131,
  2.120,
  2.110,
  2.101,
  2.093,
  2.086,
  2.080,
  2.074,
  2.069,
  2.064,
  2.060,
  2.056,
  2.052,
  2.048,
  2.045,
  2.042,
]


MIXED = ("done", "late")  # outcomes of an exchange that was applied


class TooFew(SystemExit):
  """A window that holds too little to measure anything."""


def own_exchanges(lines, since, until):
  """The exchanges that this agent began and that ended mixed within the window."""
  return [
    x
    for x in lines
    if x["event"] == "exchange" and since <= x["t"] <= until and x["initiated"] and x["outcome"] in MIXED
  ]


def whole_exchanges(logs, since, until):
  """Exchanges that agents began within the window; of them those that mixed blocks, and those that mixed all, by the
  logs of both ends."""
  ended = [x for lines in logs for x in lines if x["event"] == "exchange" and since <= x["t"] <= until]
  tried = [x for x in ended if x["outcome"] != "busy"]
  mixed = [x for x in tried if x["outcome"] in MIXED]

  def at_both_ends(lines):
    initiated = sum(x["initiated"] for x in lines)
    return min(initiated, len(lines) - initiated)

  whole = [x for x in mixed if x["blocks"] == x["blocks_total"]]
  return sum(x["initiated"] for x in tried), at_both_ends(mixed), at_both_ends(whole)


def exchange_ms(lines, since, until, per_round=1):
  """Mean time of a round that ends with `per_round` exchanges of the agent's own: one a neighbor, or one pair."""
  rounds = len(own_exchanges(lines, since, until)) / per_round
  if rounds < 1:
    raise TooFew(f"less than one round of exchange within {until - since:.1f} s")
  return 1e3 * (until - since) / rounds


def steps_at(lines, time):
  """The step count that was last written at or before `time`."""
  known = [x["steps"] for x in lines if x["t"] <= time and x["event"] in ("exchange", "status", "joined")]
  if not known:
    raise TooFew("nothing was written before the window: begin it later")
  return known[-1]


def steps_per_s(lines, since, until):
  """Steps within the window over its whole length."""
  return (steps_at(lines, until) - steps_at(lines, since)) / (until - since)


def round_ms(lines, since, until, local_steps=1):
  """Mean time of a round without overlap: an agent's local steps and what it then exchanged, in either role."""
  rate = steps_per_s(lines, since, until)
  if rate <= 0:
    raise TooFew(f"not one step within {until - since:.1f} s")
  return 1e3 * local_steps / rate


def longest_gap_ms(lines, since, until):
  """Longest time within the window in which no exchange ended; its edges count as ends."""
  times = [since, *(x["t"] for x in lines if x["event"] == "exchange" and since <= x["t"] <= until), until]
  return 1e3 * max(b - a for a, b in zip(times, times[1:]))


def step_gaps(lines, since, until):
  """(end, ms a step) between exchanges of one agent that found it at different steps."""
  first = {}
  for x in lines:
    if x["event"] == "exchange" and since <= x["t"] <= until:
      first.setdefault(x["steps"], x["t"])
  points = sorted(first.items())
  return [(t1, 1e3 * (t1 - t0) / (s1 - s0)) for (s0, t0), (s1, t1) in zip(points, points[1:])]


def value_at(points, time):
  """A growing count at `time`, between the (time, value) points around it; after the last one it has not grown."""
  if not points or points[0][0] > time:
    raise TooFew("nothing was written before the window: begin it later")
  for (t0, v0), (t1, v1) in zip(points, points[1:]):
    if t0 <= time < t1:
      return v0 + (v1 - v0) * (time - t0) / (t1 - t0)
  return points[-1][1]


def rate(lines, field, since, until):
  """Mean growth per second of a number of the status lines, `a.b` for one within another."""

  def value(line):
    for part in field.split("."):
      line = line[part]
    return line

  points = [(x["t"], value(x)) for x in lines if x["event"] == "status"]
  return (value_at(points, until) - value_at(points, since)) / (until - since)


def interval95(values):
  """(mean, half the width of its 95 % interval) by Student's t; infinite for a single value."""
  mean = statistics.mean(values)
  if len(values) < 2:
    return mean, math.inf
  t = STUDENT_T[min(len(values) - 1, len(STUDENT_T)) - 1]
  return mean, t * statistics.stdev(values) / math.sqrt(len(values))


def plus_minus(mean, half, digits=1):
  """`+1.2 % (+-0.4)`; the half width is that of a 95 % interval."""
  return f"{mean:+.{digits}f} % (± {half:.{digits}f})" if math.isfinite(half) else f"{mean:+.{digits}f} % (one run)"


def is_same(values, margin):
  """Whether the whole 95 % interval of the mean lies within +-margin, which has to be stated before the run."""
  mean, half = interval95(values)
  return abs(mean) + half <= margin


def spread(values):
  """Median and range of repeats."""
  return f"{statistics.median(values):.3g} ({min(values):.3g}..{max(values):.3g})"


def noise(values):
  """Half the spread of repeats of the same thing, in percent of their median: what A/A differs by."""
  return 50 * (max(values) - min(values)) / statistics.median(values)
