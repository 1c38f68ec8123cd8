"""What experiments measured, as data: cells read from a run's tables, merged into result.json, shown in RESULTS.md."""

import ast
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = HERE / "RESULTS.md"
WITHOUT_SCRIPT = ("bench", "exchanges", "kernels")  # NAME.json here, not NAME/result.json

KEY = ("table", "setting", "what")
FIGURES = ("value", "interval", "half_range", "range", "unit", "n", "run", "note")  # a new run replaces them
BY_HAND = ("label", "ours", "rival", "goal", "page", "headline")  # they stay
FLAGS = ("stale", "removed")
RUN_FIELDS = {"program", "date", "machine", "copied"}
VERDICTS = ("met", "missed", "not shown", "no goal")
CELL_MAX = 120  # characters of a cell of RESULTS.md
THREE_SEEDS = 2.5  # a 95 % interval of three seeds is at least so many times half their range

UNITS = ("ms", "s", "%", "kB", "MB", "Mb/s", "ns")
NUMBER = r"[-+]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?"
FORMS = [
  rf"(?P<value>{NUMBER})(?P<unit> ?[a-zA-Z%/]+)? \((?P<low>{NUMBER})(?:\.\.| to )(?P<high>{NUMBER})\)(?P<tail> ?\S+)?",
  rf"(?P<value>{NUMBER})(?P<unit> ?[a-zA-Z%/]+)? \(?± (?P<half>{NUMBER})\)?(?P<tail> ?\S+)?",
  rf"(?P<low>{NUMBER})\.\.(?P<high>{NUMBER})(?P<unit> ?\S+)?",
  rf"(?P<value>{NUMBER})(?P<unit> ?\S+)?",
]


def number(text):
  return float(text.replace(",", ""))


def figures(text, head=""):
  """Value, interval, range and unit of a table's cell; None of one that holds no figure (yes, met, -)."""
  text = text.strip().rstrip("*").strip()
  if text in ("", "-", "yes", "no", "not shown"):
    return None
  unit_of_head = next((unit for unit in UNITS if re.search(rf", {unit}$|^{unit} (a|to) ", head)), "")
  for form in FORMS:
    match = re.fullmatch(form, text)
    if match:
      parts = match.groupdict()
      found = {"value": number(parts["value"]) if parts.get("value") else None}
      if parts.get("half"):
        found["interval"] = number(parts["half"])
      if parts.get("low"):
        found["range"] = [number(parts["low"]), number(parts["high"])]
      found["unit"] = (parts.get("unit") or parts.get("tail") or unit_of_head).strip()
      return found
  return {"value": None, "unit": unit_of_head, "note": text}


def tables_of(markdown):
  """Each table: its head, and its rows as lists of text."""
  found, table = [], []
  for line in [*markdown.splitlines(), ""]:
    if line.startswith("|"):
      table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    elif table:
      found.append((table[0], table[2:]))
      table = []
  return found


def cells_of(markdown, tables, run):
  """The cells of a run's tables. `tables`: (name, axes) of each in order; axes None: not kept. `run`: its key."""
  found = tables_of(markdown)
  if len(found) != len(tables):
    raise SystemExit(f"results: {len(found)} tables, {len(tables)} named")
  cells = []
  for (name, axes), (head, rows) in zip(tables, found):
    if axes is None:
      continue
    head = [column or "way" for column in head]
    if set(axes) - set(head):
      raise SystemExit(f"results: table {name} has no column {sorted(set(axes) - set(head))}")
    for row in rows:
      by = dict(zip(head, row))
      count = by.get("runs") or by.get("seeds")
      setting = {axis: by[axis] for axis in axes if by[axis]}
      for what, text in by.items():
        cell = figures(text, what) if what not in (*axes, "runs", "seeds", "goal", "margin") else None
        if cell:
          n = {"n": int(count)} if count else {}
          cells.append({"table": name, "setting": setting, "what": what, **cell, **n, "run": run})
  return cells


def key(cell):
  return json.dumps([cell.get(name) for name in KEY], sort_keys=True)


def goal_of(text):
  """('<=', 1.1) of "<= 1.1"; "within 2" is for intervals around 0."""
  match = re.fullmatch(r"(<=|>=|within) ([-\d.]+)(?: \S.*)?", text)
  if not match:
    raise ValueError(f"no goal: {text}")
  return match[1], float(match[2])


def verdict(cell):
  """met: the whole interval meets the goal; missed: the value does not, or there is none; else not shown."""
  if not cell.get("goal"):
    return "no goal"
  value, half = cell.get("value"), cell.get("interval", THREE_SEEDS * cell.get("half_range", 0))
  if value is None and "range" in cell:
    value, half = sum(cell["range"]) / 2, (cell["range"][1] - cell["range"][0]) / 2
  if value is None:
    return "missed"
  kind, bound = goal_of(cell["goal"])
  sign = -1 if kind == ">=" else 1
  middle = abs(value) if kind == "within" else sign * value
  if round(middle - sign * bound, 9) > 0:
    return "missed"
  return "met" if half == 0 or round(middle + half - sign * bound, 9) < 0 else "not shown"


def merged(old, new):
  """Cells of a new run in place of the old ones of the same key, whose words by hand stay; others are kept."""
  fresh = {key(cell): cell for cell in new}
  cells = []
  for cell in old:
    taken = fresh.pop(key(cell), None)
    if taken:
      taken["unit"] = taken["unit"] or cell["unit"]
      cell = {**taken, **{name: cell[name] for name in BY_HAND if name in cell}}
    cells.append({**cell, "verdict": verdict(cell)})
  return cells + [{**cell, "verdict": verdict(cell)} for cell in fresh.values()]


def path_of(name):
  return HERE / f"{name}.json" if name in WITHOUT_SCRIPT else HERE / name / "result.json"


def read(name):
  return json.loads(path_of(name).read_text()) if path_of(name).exists() else {"question": "", "runs": {}, "cells": []}


def write(name, data):
  """One cell a line, so that a change shows what changed."""
  used = {cell["run"] for cell in data["cells"]}
  data["runs"] = {run: what for run, what in data["runs"].items() if run in used}
  head = {field: value for field, value in data.items() if field != "cells"}
  lines = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
  cells = ",\n  ".join(json.dumps(cell, ensure_ascii=False) for cell in data["cells"])
  path_of(name).write_text(f'{lines},\n "cells": [\n  {cells}\n ]\n}}\n')


def add(name, markdown, tables, about, n):
  """Merges a run's tables into NAME/result.json. `about`: the run's program, date, machine; n: how often each cell was
  measured, where the tables do not say so."""
  data, run = read(name), f"{about['date']} {about['program'].split()[0]}"
  data["runs"][run] = about
  data["cells"] = merged(data["cells"], [{"n": n, **cell} for cell in cells_of(markdown, tables, run)])
  write(name, data)


def names():
  return [*sorted(path.parent.name for path in HERE.glob("*/result.json")), *WITHOUT_SCRIPT]


def faults(data):
  """What is wrong with a file by the schema."""
  found, seen = [], set()
  for run, about in data["runs"].items():
    if set(about) - RUN_FIELDS or not {"program", "date", "machine"} <= set(about):
      found.append(f"run {run}: fields {sorted(about)}")
  for cell in data["cells"]:
    where = key(cell)
    if where in seen:
      found.append(f"{where}: twice")
    seen.add(where)
    unknown = set(cell) - {*KEY, *FIGURES, *BY_HAND, *FLAGS, "verdict"}
    if unknown or not {"setting", "what", "value", "unit", "run", "verdict"} <= set(cell):
      found.append(f"{where}: fields {sorted(unknown) or sorted(cell)}")
    elif cell["run"] not in data["runs"]:
      found.append(f"{where}: run {cell['run']} is not there")
    elif cell["verdict"] != verdict(cell):
      found.append(f"{where}: the verdict of its figures is {verdict(cell)}")
    elif cell["value"] is None and not cell.get("range") and not cell.get("note"):
      found.append(f"{where}: neither a value nor a note")
    elif (cell.get("goal") or cell.get("page")) and not (cell.get("label") and cell.get("ours")):
      found.append(f"{where}: stands on the page without a label or ours")
  return found


def shown(value, *others):
  """With as many decimals as the finest of those beside it."""
  if abs(value) >= 1000 or 0 < abs(value) < 1e-4:
    return f"{value:,.0f}" if abs(value) >= 1 else f"{value:g}"
  decimals = max(len(f"{one:.4g}".partition(".")[2]) for one in (value, *others))
  return f"{value:.{decimals}f}".replace("-0", "0", 1) if round(value, decimals) == 0 else f"{value:.{decimals}f}"


def said(cell):
  """Its figures in words: 0.69x ± 0.14."""
  unit = cell["unit"]
  unit = unit if unit in ("", "x") else f" {unit}"
  if cell["value"] is None:
    low, high = cell.get("range", (None, None))
    return cell["note"] if low is None else f"{shown(low, high)} to {shown(high, low)}{unit}"
  beside = [cell[name] for name in ("interval", "half_range") if name in cell]
  sign = "+" if cell["value"] > 0 and goal_is_within(cell) else ""
  text = f"{sign}{shown(cell['value'], *beside)}{unit}"
  if "interval" in cell:
    text += f" ± {shown(cell['interval'], cell['value'])}"
  elif "half_range" in cell:
    text += f" (seeds ± {shown(cell['half_range'], cell['value'])})"
  elif "range" in cell:
    text += " ({}..{})".format(*ends_said(cell))
  return text + (f", {cell['note']}" if cell.get("note") else "")


def ends_said(cell):
  """With the digits of the finer one; with the value's where it was kept rounded, and so stands outside."""
  low, high = cell["range"]
  if low <= cell["value"] <= high:
    return shown(low, high), shown(high, low)
  decimals = len(f"{cell['value']:.4g}".partition(".")[2])
  return f"{low:.{decimals}f}", f"{high:.{decimals}f}"


def goal_is_within(cell):
  return cell.get("goal", "").startswith("within")


def verdict_said(cell):
  marks = [mark for mark in FLAGS if cell.get(mark)]
  words = {"no goal": "", "missed": "**missed**"}.get(cell["verdict"], cell["verdict"])
  return ", ".join(filter(None, [words, *marks]))


def on_page(cell):
  return not cell.get("removed") and (bool(cell.get("page")) or cell["verdict"] in ("missed", "not shown"))


def row_of(cell):
  return [
    cell["label"],
    cell["ours"],
    cell.get("rival", ""),
    said(cell),
    cell.get("goal", ""),
    verdict_said(cell),
  ]


def reading(name):
  """Two sentences of the paragraph of an experiment's docstring that begins with `Reading:`, or of a file's reading."""
  if name in WITHOUT_SCRIPT:
    text = read(name)["reading"]
  else:
    text = ast.get_docstring(ast.parse((HERE / name / "experiment.py").read_text())).split("Reading:")[1]
  return ". ".join(" ".join(text.split()).rstrip(".").split(". ")[:2]) + "."


def section(name):
  data = read(name)
  cells = [cell for cell in data["cells"] if on_page(cell)]
  labels = list(dict.fromkeys((cell["label"], cell["ours"]) for cell in cells))
  first = {label: i for i, (label, _) in reversed(list(enumerate(labels)))}
  cells.sort(key=lambda cell: (first[cell["label"]], labels.index((cell["label"], cell["ours"]))))
  others = sum(cell["verdict"] == "met" and not on_page(cell) for cell in data["cells"])
  head = ["setting", "ours", "rival", "ratio or value", "goal", "verdict"]
  rows = list(map(row_of, cells))
  for above, below in reversed(list(zip(rows, rows[1:]))):  # what stands above is not said again
    below[:3] = ["″" if own and own == other else own for own, other in zip(below[:3], above)]
  lines = ["|" + "|".join(row) + "|" for row in [head, ["---"] * len(head), *rows]]
  file = path_of(name).relative_to(HERE).as_posix()
  more = f"; goals that are met too: {others}" if others else ""
  return "\n".join([f"## {data['question']}", "", wrapped(reading(name)), "", f"[{file}]({file}){more}.", "", *lines])


def wrapped(text, width=120):
  lines, line = [], ""
  for word in text.split():
    if line and len(line) + 1 + len(word) > width:
      lines, line = [*lines, line], word
    else:
      line = f"{line} {word}".strip()
  return "\n".join([*lines, line])


HEAD = """# Results

Written by `tools/experiments/run --pages`; do not edit. The tables show goals that are missed or not shown, and
cells that claims rest on; the files hold all cells.

A ratio is ours over the rival's. ± is a 95 % interval; `seeds ±` is half the range of three seeds; a verdict
takes 2.5 times that. Brackets hold the least and the most.

- *Met*: the whole interval meets the goal. *Missed*: the value does not. *Not shown*: the value alone does.
- *Stale*: the program has changed in what is measured.

![Time of a round over latency, and loss over lost blocks](results.svg)
"""


def page():
  return HEAD + "\n" + "\n\n".join(section(name) for name in names()) + "\n"


BLOCK = re.compile(r"<!-- figures -->\n.*?<!-- /figures -->\n", re.S)


def block():
  """The README's table: the cells that have a headline."""
  cells = [cell for name in names() for cell in read(name)["cells"] if cell.get("headline")]
  rows = [[cell["headline"], said(cell), cell.get("goal", ""), verdict_said(cell)] for cell in cells]
  lines = ["|" + "|".join(row) + "|" for row in [["what", "measured", "goal", "verdict"], *rows]]
  lines.insert(1, "|---|---|---|---|")
  return "<!-- figures -->\n" + "\n".join(lines) + "\n<!-- /figures -->\n"


def write_pages():
  PAGE.write_text(page())
  readme = ROOT / "README.md"
  text = readme.read_text()
  if not BLOCK.search(text):
    raise SystemExit("README.md lacks its lines <!-- figures --> and <!-- /figures -->")
  readme.write_text(BLOCK.sub(lambda _: block(), text))
