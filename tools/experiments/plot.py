"""Draws results.svg from the cells in the result.json files; `tools/experiments/run --pages` does so."""

import math
import pathlib

import results

HERE = pathlib.Path(__file__).resolve().parent
COLORS = ["#0b5fa5", "#c2410c", "#15803d", "#7c3aed", "#64748b"]
WIDTH, HEIGHT, LEFT, TOP, PLOT_W, PLOT_H = 470, 330, 62, 46, 300, 220


def rows_of(name, table):
  """Of a table of an experiment's cells: its settings in order, each with its values by column."""
  rows = {}
  for cell in results.read(name)["cells"]:
    if cell["table"] == table:
      rows.setdefault(tuple(cell["setting"].values()), {})[cell["what"]] = cell["value"]
  return rows


def nice(value):
  return f"{value:g}"


def ticks_of(low, high, log):
  if log:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
  step = 10 ** math.floor(math.log10(high - low)) / 2
  return [low + i * step for i in range(int((high - low) / step) + 1)]


def chart(title, x_name, y_name, series, log=False, y_low=None):
  """series: name -> [(x label, y)]; x labels are spaced evenly."""
  values = [y for points in series.values() for _, y in points]
  low = y_low if y_low is not None else (min(values) / 1.3 if log else 0)
  high = max(values) * (1.3 if log else 1.08)
  labels = [x for x, _ in max(series.values(), key=len)]

  def at(label, value):
    x = LEFT + PLOT_W * (labels.index(label) + 0.5) / len(labels)
    part = (math.log(value / low) / math.log(high / low)) if log else (value - low) / (high - low)
    return x, TOP + PLOT_H * (1 - part)

  parts = [
    f'<text x="{LEFT}" y="20" class="title">{title}</text>',
    f'<text x="{LEFT + PLOT_W / 2}" y="{TOP + PLOT_H + 38}" class="axis" text-anchor="middle">{x_name}</text>',
    f'<text x="{LEFT}" y="38" class="axis">{y_name}</text>',
  ]
  for tick in ticks_of(low, high, log):
    _, y = at(labels[0], tick) if tick > 0 or not log else (0, TOP + PLOT_H)
    parts.append(
      f'<line x1="{LEFT}" x2="{LEFT + PLOT_W}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
      f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="tick" text-anchor="end">{nice(tick)}</text>'
    )
  for label in labels:
    x, _ = at(label, high)
    parts.append(f'<text x="{x:.1f}" y="{TOP + PLOT_H + 17}" class="tick" text-anchor="middle">{label}</text>')
  ends = []
  for color, (name, points) in zip(COLORS, series.items()):
    spots = [at(label, y) for label, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in spots]
    ends.append([spots[-1][1], spots[-1][0], name, color])
  ends.sort()
  for above, below in zip(ends, ends[1:]):  # names do not cover each other
    below[0] = max(below[0], above[0] + 13)
  parts += [
    f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" class="name" style="fill:{color}">{name}</text>'
    for y, x, name, color in ends
  ]
  return "\n".join(parts)


def latency_chart(rate):
  rows = {at[0]: row for at, row in rows_of("s1_latency", "ms a round").items() if at[1] == rate}
  names = {
    "gloo ring": "gloo ring",
    "best all-reduce": None,
    "D-PSGD ring": "D-PSGD ring",
    "pairwise modulo8": "pairwise modulo8",
  }
  series = {name: [] for name in names}
  for delay, row in rows.items():
    best = min(row[key] for key in row if key.startswith("gloo") and "every" not in key)
    for name, column in names.items():
      series[name].append((delay, row[column] if column else best))
  return chart(f"One round of 8 agents, {rate} Mb/s", "one-way delay, ms", "ms per round (log)", series, log=True)


def loss_chart():
  series = {}
  for (shared, lost), row in rows_of("s3_rps", "loss").items():
    if shared in ("params", "gradients"):  # what has a momentum is in the table alone
      series.setdefault(f"sharing {shared}", []).append((lost, row["test loss"]))
  least = min(loss for points in series.values() for _, loss in points)
  return chart("RPS: 16 agents, lost blocks", "blocks lost", "test loss", series, y_low=math.floor(10 * least) / 10)


def draw():
  panels = [latency_chart("1000"), latency_chart("10"), loss_chart()]
  body = "\n".join(f'<g transform="translate({i * WIDTH},0)">{panel}</g>' for i, panel in enumerate(panels))
  style = (
    "text{font-family:sans-serif;fill:#1f2937}.title{font-size:14px;font-weight:bold}"
    ".axis,.tick{font-size:11px;fill:#475569}.name{font-size:11px}.grid{stroke:#e2e8f0}"
  )
  (HERE / "results.svg").write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(panels)}" height="{HEIGHT}">'
    f'<style>{style}</style><rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
  )
