"""Time of an iteration under the best merge plan, the naive ones and the published greedy, on virtual time."""
import collections
import json
import pathlib
import statistics
import subprocess

from lib import find_program, table

TABLES = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "configs" / "layers"
NETWORKS = ["vgg16", "resnet50", "inception4", "lstm"]
CELLS = [(ms, mbit) for ms in (0.1, 1, 10) for mbit in (100, 1000, 10000)]


def grid(names):
    """(network, form, density, ms, Mb/s) -> plan -> figures, as tools/experiments/plan_grid.cpp prints them."""
    command = [str(find_program("experiments/plan_grid")), *(str(TABLES / f"{name}.yaml") for name in names)]
    cells = collections.defaultdict(dict)
    for line in subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout.splitlines():
        row = json.loads(line)
        key = (row["model"], row["form"], row["density"], row["latency_ms"], row["rate_mbit"])
        cells[key][row["plan"]] = row
    return cells


def naive(plans, key="step_s"):
    return min((plans[name] for name in plans if name in ("per slice", "per layer", "one bucket")),
               key=lambda row: row[key])


def gain(plans, key="step_s"):
    return 100 * (1 - plans["best"][key] / naive(plans, key)[key])


def per(plans):
    return plans.get("per slice") or plans["per layer"]


def gains(cells, form, key):
    """A row a network and density, a column a link."""
    rows = []
    for model in dict.fromkeys(cell[0] for cell in cells):
        for density in (0.01, 0.001):
            values = []
            for ms, mbit in CELLS:
                plans = cells[model, form, density, ms, mbit]
                dense = "*" if plans["dense"]["step_s"] <= plans["best"]["step_s"] else ""
                values.append(f"{gain(plans, key):.1f}{dense}")
            rows.append([model, f"{100 * density:g} %", *values])
    return table(["network", "density", *(f"{ms:g} ms, {mbit / 1000:g} Gb/s" for ms, mbit in CELLS)], rows)


def over(cells, form):
    """How much longer than the best plan the others take, over all cells."""
    rows = []
    chosen = [plans for key, plans in cells.items() if key[1] == form]
    for name in [per(chosen[0])["plan"], "one bucket", "25 MB buckets", "greedy", "dense"]:
        values = sorted(100 * (plans[name]["step_s"] / plans["best"]["step_s"] - 1) for plans in chosen)
        rows.append([name, f"{statistics.median(values):.1f}", f"{values[-1]:.1f}",
                     f"{sum(value > 5 for value in values)} of {len(values)}"])
    return table(["plan", "median over best, %", "most, %", "by more than 5 %"], rows)


def messages(cells):
    rows = []
    for model in dict.fromkeys(cell[0] for cell in cells):
        chosen = [plans for key, plans in cells.items() if key[:2] == (model, "group")]
        values = [[plan["buckets"] for plan in (plans["best"], per(plans))] for plans in chosen]
        sent = [[plan["messages"] for plan in (plans["best"], per(plans), plans["one bucket"])] for plans in chosen]
        best = sorted(one[0] for one in sent)
        rows.append([model, f"{min(v[0] for v in values)}..{max(v[0] for v in values)}", values[0][1],
                     f"{best[0]:.0f}..{best[-1]:.0f}", f"{sent[0][1]:.0f}", f"{sent[0][2]:.0f}",
                     f"{1e3 * 30e-6 * statistics.median(best):.1f} ms", f"{1e3 * 30e-6 * sent[0][1]:.1f} ms"])
    return table(["network", "buckets", "slices", "messages: best", "per slice", "one bucket",
                  "processor at 30 us: best (median)", "per slice"], rows)


def against_played(cells):
    rows = []
    chosen = [plans for key, plans in cells.items() if key[1] == "group"]
    for name in ["best", "greedy", "per slice", "25 MB buckets", "one bucket", "dense"]:
        values = sorted(100 * (plans[name]["step_s"] / plans[name]["played_step_s"] - 1) for plans in chosen)
        rows.append([name, f"{values[0]:.1f}..{values[-1]:.1f}", f"{statistics.median(values):.1f}",
                     f"{sum(abs(value) < 1 for value in values)} of {len(values)}"])
    return table(["plan", "form against played, %", "median", "within 1 %"], rows)


def run(repeat=1, quick=False, say=print):
    cells = grid(NETWORKS[1:2] if quick else NETWORKS)
    worst = {form: min(gain(plans) for key, plans in cells.items() if key[1] == form)
             for form in ("group", "collectives")}
    say(f"least gain: {worst}")
    return (f"{len(cells)} cells. Least gain over the better naive plan: {worst['collectives']:.3f} % with "
            f"collectives, {worst['group']:.3f} % in a group, by the forms.\n\n"
            "Gain over the better naive plan, % of an iteration; * where whole fp32 gradients are faster.\n\n"
            f"Collectives:\n\n{gains(cells, 'collectives', 'step_s')}\n"
            f"Group, by the form:\n\n{gains(cells, 'group', 'step_s')}\n"
            f"Group, played message by message:\n\n{gains(cells, 'group', 'played_step_s')}\n"
            f"Other plans, collectives:\n\n{over(cells, 'collectives')}\n"
            f"Other plans, group, by the form:\n\n{over(cells, 'group')}\n"
            f"Messages that a member sends or takes in a step, group:\n\n{messages(cells)}\n"
            f"Group, the form against what was played:\n\n{against_played(cells)}")
