"""Time to accuracy on digits: fewer tests to look at, when the worst agent gets there, and how such times are said."""

import math
import pathlib
import shutil
import struct

from counting import interval95

GOALS = (0.93, 0.95)
TESTED = 250  # of the 1,000 test digits: every agent's model is evaluated at each look


def read_idx(path):
  """Its header (a 4-byte magic number, the count, the other sizes), the count, and the bytes of each item."""
  read = path.read_bytes()
  header, count = 4 + 4 * read[3], struct.unpack(">I", read[4:8])[0]
  size = (len(read) - header) // count
  return read[:header], [read[header + i * size : header + (i + 1) * size] for i in range(count)]


def first_tests(folder, scratch, count, digits=range(10)):
  """The folder with only so many of its test digits, and only these."""
  if folder == "generated":
    return folder
  small = pathlib.Path(scratch)
  small.mkdir(exist_ok=True)
  labels = read_idx(pathlib.Path(folder) / "t10k-labels-idx1-ubyte")[1]
  chosen = [i for i, label in enumerate(labels) if label[0] in digits][:count]
  for path in pathlib.Path(folder).iterdir():
    if not path.name.startswith("t10k"):
      shutil.copy(path, small)
      continue
    header, items = read_idx(path)
    (small / path.name).write_bytes(
      header[:4] + struct.pack(">I", len(chosen)) + header[8:] + b"".join(items[i] for i in chosen)
    )
  return str(small)


def arrivals(looks, agents):
  """When the worst agent first is at each goal, None where it never is. looks: (time, agent, accuracy), in the order
  of time; an agent counts with its last look."""
  last, found = {}, [None] * len(GOALS)
  for time, agent, accuracy in looks:
    last[agent] = accuracy
    worst = min(last.values()) if len(last) == agents else 0
    found = [time if at is None and worst >= goal else at for at, goal in zip(found, GOALS)]
  return found


def mean(values):
  return sum(values) / len(values)


def said(times):
  found = [time for time in times if time is not None]
  if len(found) < len(times):
    there = ", ".join(f"{time:.1f}" for time in sorted(found)) + " s, " if found else ""
    return f"{there}not in {len(times) - len(found)} of {len(times)} runs"
  return "{:.1f} ± {:.1f} s".format(*interval95(found)) if len(found) > 1 else f"{found[0]:.1f} s"


def ratio(times, others):
  """Of the means, with its 95 % interval: the relative ones of both, as independent errors add."""
  if None in times or None in others or len(times) < 2:
    return ""
  (a, of_a), (b, of_b) = interval95(times), interval95(others)
  return f"{a / b:.2f} ± {a / b * math.hypot(of_a / a, of_b / b):.2f}"
