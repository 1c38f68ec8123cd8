"""Time to accuracy of the worst agent: pairs by turns, a group, pairs in shares, all-reduce and local SGD; and how many
steps an agent keeps beside a slow one."""
import math
import pathlib
import shutil
import struct
import tempfile

from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: pairs_turns
  model: {kind: cnn, channels: 16}
  optimizer: {kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 0}
  batch: 64
  exchange: {kind: pairwise, codec: modulo8, carry: [params, momentum], deadline_min: 20ms, deadline_max: 500ms}
agent:
  threads: 1
"""
LINK = ["--latency", "50ms", "--rate", "100mbit", "--compute", "40ms"]
GOALS = (0.93, 0.95)
TESTED = 250   # of the 1,000 test digits: five models are evaluated at each look
TURNS, SHARES, GROUP, JOINED = "by turns", "in shares", "group", "groups and pairs"
OF_GROUP = {"swarm__exchange__codec": "bf16", "swarm__exchange__block": 23552, "swarm__exchange__overlap": "off"}
EXCHANGES = {TURNS: {}, SHARES: {"swarm__exchange__overlap": "on"},
             GROUP: {"swarm__exchange__kind": "group", **OF_GROUP},
             JOINED: {"swarm__exchange__kind": "group", "swarm__exchange__group_size": 16, **OF_GROUP}}
FRAMES, WHOLE = ["--loss", 0.1], ["--lose-exchanges", 0.1]

# agents, data, steps a round, what is lost, seconds, between two looks, seeds, exchanges
CELLS = [(4, "labels", 1, [], 10, 0.1, 5, (TURNS, GROUP)), (2, "labels", 1, [], 9, 0.1, 5, (TURNS, GROUP)),
         (8, "labels", 1, [], 14, 0.2, 3, (TURNS, GROUP)), (4, "iid", 1, [], 6, 0.1, 3, (TURNS, SHARES)),
         (3, "labels", 1, [], 9, 0.1, 3, (TURNS, GROUP)), (5, "labels", 1, [], 10, 0.2, 3, (TURNS, GROUP)),
         (4, "labels", 1, FRAMES, 14, 0.2, 3, (TURNS,)), (4, "labels", 1, WHOLE, 10, 0.1, 3, (TURNS,)),
         (4, "labels", 4, [], 14, 0.2, 2, (TURNS, GROUP)), (16, "dirichlet", 1, [], 13, 0.5, 2, (TURNS, GROUP)),
         (4, "labels", 8, [], 18, 0.5, 2, (TURNS, GROUP)), (32, "dirichlet", 1, [], 13, 1, 1, (TURNS, JOINED))]
RATES = {4: 0.02, 8: 0.02}   # at more steps a round; else CONFIG's
BASELINES = [("allreduce", 1, 100), ("local-sgd", 2, 120), ("local-sgd", 4, 160), ("local-sgd", 8, 200)]   # steps
# agents, the slow one's factor, part of the steps that the others are to keep
SLOW = [(8, 4, 0.95), (4, 8, 0.9)]


def first_tests(folder, scratch, count):
    """The folder with only so many of its test digits; IDX: a 4-byte magic number, the count, the other sizes."""
    if folder == "generated":
        return folder
    small = pathlib.Path(scratch)
    for path in pathlib.Path(folder).iterdir():
        if not path.name.startswith("t10k"):
            shutil.copy(path, small)
            continue
        read = path.read_bytes()
        header = 4 + 4 * read[3]
        each = (len(read) - header) // struct.unpack(">I", read[4:8])[0]
        (small / path.name).write_bytes(read[:4] + struct.pack(">I", count) + read[8:header + count * each])
    return str(small)


def reached(rows, series):
    """When the worst agent of a series first reaches each goal, None where it does not."""
    worst = {}
    for row in rows:
        if row["series"] == series and (series != "swarm" or row["agent"] != ""):
            at = float(row["virtual_s"])
            worst[at] = min(worst.get(at, 1), float(row["accuracy"]))
    return [next((at for at in sorted(worst) if worst[at] >= goal), None) for goal in GOALS]


def of_swarm(cell, exchange, seed, folder):
    agents, sharding, every, lost, seconds, look, _, _ = cell
    flags = ["--steps", 100000, "--every", look, "--seconds", seconds, "--seed", seed, *LINK, *lost]
    rate = {"swarm__optimizer__learning_rate": RATES[every]} if every in RATES else {}
    summary, rows = simulate(CONFIG, agents, flags, agent__data__path=folder, agent__data__sharding=sharding,
                             agent__data__alpha=0.1, swarm__local_steps=every, **rate, **EXCHANGES[exchange])
    swarm, pairs = summary["final"]["swarm"], [one for one in summary.get("pairs", []) if one]
    return {"times": reached(rows, "swarm"), "ms": 1e3 * seconds / swarm["steps"],
            "kB": swarm["bytes"] / swarm["steps"] / agents / 1e3,
            "a step": sum(one["a_step"] for one in pairs) / len(pairs) if pairs else None}


def of_baseline(name, every, steps, seed, folder):
    flags = ["--steps", steps, "--every", 0.04 * every, "--seconds", 0.1, "--seed", seed, *LINK, "--baseline", name]
    _, rows = simulate(CONFIG, 4, flags, agent__data__path=folder, agent__data__sharding="labels",
                       swarm__local_steps=every)
    return reached(rows, name)


def steps_of_the_fast(agents, slow, seed):
    """Mean steps of all but the last agent in 20 s; slow: the last one's factor, None: it is not there."""
    speeds = ",".join(["1"] * (agents - 1) + ([str(slow)] if slow else []))
    _, rows = simulate(CONFIG, agents if slow else agents - 1,
                       ["--steps", 100000, "--every", 20, "--seconds", 20, "--seed", seed, "--speeds", speeds, *LINK],
                       swarm__model__kind="quadratic", swarm__model__dimension=18314)
    last = {int(row["agent"]): int(row["step"]) for row in rows if row["series"] == "swarm" and row["agent"] != ""}
    return sum(last[a] for a in range(agents - 1)) / (agents - 1)


def said(times):
    found = [time for time in times if time is not None]
    if len(found) < len(times):
        return f"not in {len(times) - len(found)} of {len(times)} runs"
    return "{:.1f} ± {:.1f} s".format(*interval95(found)) if len(found) > 1 else f"{found[0]:.1f} s"


def ratio(times, others):
    """Of the means, with its 95 % interval: the relative ones of both, as independent errors add."""
    if None in times or None in others or len(times) < 2:
        return ""
    (a, of_a), (b, of_b) = interval95(times), interval95(others)
    return f"{a / b:.2f} ± {a / b * math.hypot(of_a / a, of_b / b):.2f}"


def mean(values):
    return sum(values) / len(values)


def cell_rows(cell, folder, count):
    """One row an exchange; the ratios are of the first one's times to this one's."""
    agents, sharding, every, lost, _, _, _, exchanges = cell
    cases = [(exchange, seed) for exchange in exchanges for seed in range(1, count + 1)]
    found = two_at_a_time(lambda case: of_swarm(cell, *case, folder), cases)
    rows, first = [], None
    for exchange in exchanges:
        runs = [one for case, one in zip(cases, found) if case[0] == exchange]
        times = [[one["times"][goal] for one in runs] for goal in range(len(GOALS))]
        ratios = [ratio(*pair) for pair in zip(first, times)] if first else ["", ""]
        first = first or times
        made = "" if runs[0]["a step"] is None else f"{mean([one['a step'] for one in runs]):.2f}"
        rows.append([agents, sharding, every, " ".join(map(str, lost)), count, exchange, *map(said, times), *ratios,
                     f"{mean([one['ms'] for one in runs]):.0f}", f"{mean([one['kB'] for one in runs]):.0f}", made])
    return rows


def baseline_row(name, every, steps, folder, count):
    times = two_at_a_time(lambda seed: of_baseline(name, every, steps, seed, folder), range(1, count + 1))
    return [name, every, count, *(said([one[goal] for one in times]) for goal in range(len(GOALS)))]


def slow_row(agents, factor, part, count):
    cases = [(slow, seed) for slow in (None, factor) for seed in range(1, count + 1)]
    found = two_at_a_time(lambda case: steps_of_the_fast(agents, *case), cases)
    kept = [100 * with_it / without for without, with_it in zip(found[:count], found[count:])]
    shown = "{:.1f} ± {:.1f} %".format(*interval95(kept)) if count > 1 else f"{kept[0]:.1f} %"
    return [agents, factor, shown, f"{100 * part:.0f} %"]


def run(repeat=1, quick=False, say=print):
    def told(row):
        say(f"{row}")
        return row

    with tempfile.TemporaryDirectory(prefix="starling-digits-") as scratch:
        folder = first_tests(data(), scratch, TESTED)
        slow = [told(slow_row(*one, 1 if quick else 5 * repeat)) for one in SLOW]
        rows = [told(row) for cell in (CELLS[:1] if quick else CELLS)
                for row in cell_rows(cell, folder, 1 if quick else cell[6] * repeat)]
        baselines = [] if quick else [told(baseline_row(*one, folder, 2 * repeat)) for one in BASELINES]
    return (f"{data_name()}, {TESTED} tested, virtual time, worst agent; ratio: time by turns to this one's.\n\n"
            + table(["agents", "data", "H", "lost", "runs", "exchange", "93 %", "95 %", "ratio at 93 %", "at 95 %",
                     "ms a step", "kB a step", "exchanges a step"], rows)
            + "\n\n4 agents by label, all with one model:\n\n"
            + table(["baseline", "H", "runs", "93 %", "95 %"], baselines)
            + "\n\nQuadratics of 18,314 params: steps that the others keep beside a slow one.\n\n"
            + table(["agents", "the slow one's factor", "kept", "goal"], slow))
