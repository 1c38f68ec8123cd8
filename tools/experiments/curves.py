"""Arithmetic on the rows of curve.csv (`starling simulate`) that codec_choice and s2_rivals need: pure functions."""

import collections
import statistics

Row = collections.namedtuple("Row", "time_s step bytes loss accuracy")  # bytes: of all agents
Pace = collections.namedtuple("Pace", "seconds bytes start_s")  # of a step; bytes: of one agent
LATE = 0.75  # of the steps: what comes after is late


class TooFew(SystemExit):
  """Rows that hold too little to measure anything."""


def read(rows):
  """Rows of one series, as numbers, in the order of time."""
  return [
    Row(
      float(row["virtual_s"]),
      float(row["step"]),
      float(row["bytes"]),
      float(row["loss"]),
      float(row["accuracy"] or "nan"),
    )
    for row in rows
  ]


def late_mean(rows, field):
  """Mean over the last quarter of the steps: one evaluation alone is noise."""
  values = [getattr(row, field) for row in rows if row.step >= LATE * rows[-1].step]
  if len(values) < 3:
    raise TooFew(f"only {len(values)} evaluations in the last quarter")
  return statistics.mean(values)


def smoothed(points):
  """(x, value) points, each with the mean of itself and its two neighbours; the first and the last drop out."""
  return [(x, statistics.mean(value for _, value in points[i : i + 3])) for i, (x, _) in enumerate(points[1:-1])]


def crossing(points, goal):
  """Where the line through (x, value) points first is at `goal` or below; None: nowhere."""
  if points[0][1] <= goal:
    return points[0][0]
  for (x0, v0), (x1, v1) in zip(points, points[1:]):
    if v1 <= goal:
      return x0 + (x1 - x0) * (v0 - goal) / (v0 - v1)
  return None


def pace(rows, begin, end, agents):
  """What a step takes and sends between the steps `begin` and `end`, and what was lost before: the time at the first
  of these rows beyond what its steps take at this pace."""
  inside = [row for row in rows if begin <= row.step <= end]
  if len(inside) < 2 or inside[-1].step - inside[0].step < (end - begin) / 2:
    raise TooFew(f"the rows do not cover the steps {begin} to {end}")
  first, last = inside[0], inside[-1]
  steps = last.step - first.step
  seconds = (last.time_s - first.time_s) / steps
  return Pace(seconds, (last.bytes - first.bytes) / steps / agents, first.time_s - first.step * seconds)
