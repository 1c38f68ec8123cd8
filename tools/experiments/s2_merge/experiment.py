"""Time of an iteration under the best merge plan, the naive ones and the published greedy, on virtual time.

Reading: Merging pays where each bucket is a collective call with a large start-up. With our streams it saves
messages, and next to no time. Selecting two parts together pays only where parts outgrow the caches.
"""

import json
import pathlib
import statistics
import subprocess

import lib
from lib import table
from simulated import two_at_a_time

TABLES = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "configs" / "layers"
NETWORKS = ["vgg16", "resnet50", "inception4", "lstm"]
CELLS = [(ms, mbit) for ms in (0.1, 1, 10) for mbit in (100, 1000, 10000)]


def planned(cell):
  """plan -> figures, as `starling plan` prints them."""
  name, form, density, ms, mbit = cell
  command = [
    lib.STARLING,
    "plan",
    "--layers",
    TABLES / f"{name}.yaml",
    "--form",
    form,
    "--agents",
    8,
    "--density",
    density,
    "--link",
    f"{1e3 * ms:.0f}us,{mbit}mbit",
    "--json",
  ]
  done = subprocess.run([str(x) for x in command], capture_output=True, text=True, check=True, timeout=600)
  found = json.loads(done.stdout)
  return found["model"], {plan: {"plan": plan, **row} for plan, row in found["plans"].items()}


def grid(names):
  """(network, form, density, ms, Mb/s) -> plan -> figures."""
  cases = [
    (name, form, density, ms, mbit)
    for name in names
    for form in ("group", "collectives")
    for density in (0.01, 0.001)
    for ms, mbit in CELLS
  ]
  return {(model, *case[1:]): plans for case, (model, plans) in zip(cases, two_at_a_time(planned, cases))}


BY_FORM = "best by form"
NAIVE = ("per slice", "per layer", "one bucket")


def naive(plans, key="step_s"):
  return min((plans[name] for name in plans if name in NAIVE), key=lambda row: row[key])


def gain(plans, name="best", key="step_s"):
  return 100 * (1 - plans[name][key] / naive(plans, key)[key])


def per(plans):
  return plans.get("per slice") or plans["per layer"]


def of(cells, form):
  return [plans for key, plans in cells.items() if key[1] == form]


def spread(values, digits=1):
  return f"{min(values):.{digits}f}..{max(values):.{digits}f}"


def gains(cells, form, name="best", key="step_s"):
  """A row a network and density, a column a link."""
  rows = []
  for model in dict.fromkeys(cell[0] for cell in cells):
    for density in (0.01, 0.001):
      values = []
      for ms, mbit in CELLS:
        plans = cells[model, form, density, ms, mbit]
        dense = "*" if plans["dense"][key] <= plans[name][key] else ""
        values.append(f"{gain(plans, name, key):.1f}{dense}")
      rows.append([model, f"{100 * density:g} %", *values])
  return table(["network", "density", *(f"{ms:g} ms, {mbit / 1000:g} Gb/s" for ms, mbit in CELLS)], rows)


def over(cells, form):
  """How much longer than the best plan the others take, over all cells."""
  rows = []
  chosen = of(cells, form)
  for name in [BY_FORM, per(chosen[0])["plan"], "one bucket", "25 MB buckets", "greedy", "dense"]:
    values = sorted(100 * (plans[name]["step_s"] / plans["best"]["step_s"] - 1) for plans in chosen)
    rows.append(
      [
        name,
        f"{values[0]:.1f}",
        f"{statistics.median(values):.1f}",
        f"{values[-1]:.1f}",
        f"{sum(value > 5 for value in values)} of {len(values)}",
      ]
    )
  return table(["plan", "least over best, %", "median", "most", "by more than 5 %"], rows)


def messages(cells):
  rows = []
  for model in dict.fromkeys(cell[0] for cell in cells):
    for density in (0.01, 0.001):
      chosen = [plans for key, plans in cells.items() if key[:3] == (model, "group", density)]
      best, alone = [plans["best"]["messages"] for plans in chosen], per(chosen[0])["messages"]
      saved = [1e3 * 30e-6 * (alone - count) for count in best]
      buckets = [len(plans["best"]["ends"]) for plans in chosen]
      rows.append(
        [
          model,
          f"{100 * density:g} %",
          spread(buckets, 0),
          len(per(chosen[0])["ends"]),
          spread(best, 0),
          f"{alone:.0f}",
          f"{chosen[0]['one bucket']['messages']:.0f}",
          f"{alone / statistics.median(best):.1f}",
          f"{statistics.median(saved):.1f} ms",
        ]
      )
  return table(
    [
      "network",
      "density",
      "buckets",
      "slices",
      "messages: best",
      "per slice",
      "one bucket",
      "fewer by (median)",
      "processor saved at 30 us (median)",
    ],
    rows,
  )


def against_played(cells):
  rows = []
  for name in ["best", BY_FORM, "greedy", "per slice", "25 MB buckets", "one bucket", "dense"]:
    values = sorted(100 * (plans[name]["form_step_s"] / plans[name]["step_s"] - 1) for plans in of(cells, "group"))
    rows.append(
      [
        name,
        spread(values),
        f"{statistics.median(values):.1f}",
        f"{sum(abs(value) < 1 for value in values)} of {len(values)}",
      ]
    )
  return table(["plan", "form against played, %", "median", "within 1 %"], rows)


TABLES = [
  ("collectives", ["network", "density"]),
  ("group, taken, played", ["network", "density"]),
  ("group, best by the form, played", ["network", "density"]),
  ("group, best by the form", ["network", "density"]),
  ("other plans, collectives", ["plan"]),
  ("other plans, group", ["plan"]),
  ("messages", ["network", "density"]),
  ("form against played", ["plan"]),
]


def run(repeat=1, quick=False, say=print):
  cells = grid(NETWORKS[1:2] if quick else NETWORKS)
  others = {
    form: min(
      100 * (row["step_s"] / plans["best"]["step_s"] - 1)
      for plans in of(cells, form)
      for name, row in plans.items()
      if name != "dense"
    )
    for form in ("group", "collectives")
  }
  played = [gain(plans) for plans in of(cells, "group")]
  return (
    f"{len(cells)} cells. Least that any plan is over the best one, itself included: "
    f"{others['collectives']:.3f} % with collectives, {others['group']:.3f} % in a group. In a group the best "
    f"plan gains {spread(played)} %, median {statistics.median(played):.2f}, over 1 % in "
    f"{sum(x > 1 for x in played)} of {len(played)} cells.\n\n"
    "Gain over the better naive plan, % of an iteration; * where whole fp32 gradients are faster.\n\n"
    f"Collectives:\n\n{gains(cells, 'collectives')}\n"
    f"Group, the plan that is taken, played message by message:\n\n{gains(cells, 'group')}\n"
    f"Group, the best plan by the form, played:\n\n{gains(cells, 'group', BY_FORM)}\n"
    f"The same by the form:\n\n{gains(cells, 'group', BY_FORM, 'form_step_s')}\n"
    f"Other plans, collectives:\n\n{over(cells, 'collectives')}\n"
    f"Other plans, group, played:\n\n{over(cells, 'group')}\n"
    f"Messages that a member sends or takes in a step, group:\n\n{messages(cells)}\n"
    f"Group, the form against what was played:\n\n{against_played(cells)}"
  )
