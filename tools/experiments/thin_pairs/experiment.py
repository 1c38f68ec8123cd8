"""Loss after as many steps: pairs that send less, and what 10 % of lost frames cost each of them."""
from counting import interval95, is_same, plus_minus
from lib import table
from simulated import data, data_name, pairs_of_digits, simulate, two_at_a_time

STEPS = 400
CONFIG = pairs_of_digits("thin_pairs", STEPS)
FLAGS = ["--every", 0.5, "--latency", "10ms", "--rate", "10mbit", "--compute", "20ms"]
WAYS = {"modulo8": {}, "fp16": {"codec": "fp16"}, "modulo4": {"codec": "modulo4"},
        "modulo8, fragments 4": {"fragments": 4}, "modulo4, fragments 4": {"codec": "modulo4", "fragments": 4}}
MARGIN = 2   # percent


def measured(case):
    """Mean test loss of the agents over the last quarter of the steps; bytes sent a step of an agent; the part of the
    exchanges that were not whole, and of the blocks that the codec left out."""
    way, sharding, lost, seed = case
    summary, rows = simulate(CONFIG, 4, [*FLAGS, "--loss", lost, "--seed", seed], agent__data__path=data(),
                             agent__data__sharding=sharding,
                             **{f"swarm__exchange__{key}": value for key, value in WAYS[way].items()})
    losses = [float(row["loss"]) for row in rows
              if row["series"] == "swarm" and row["agent"] != "" and 0.75 * STEPS <= int(row["step"]) <= STEPS]
    swarm, exchanges, blocks = summary["final"]["swarm"], summary["exchanges"], summary["blocks"]
    ended = exchanges["done"] + exchanges["late"] + exchanges["failed"]
    return (sum(losses) / len(losses), swarm["bytes"] / swarm["steps"] / 4,
            (ended - exchanges["done"]) / ended, blocks["refused"] / blocks["due"])


def mean(values):
    return sum(values) / len(values)


def percent(value):
    return f"{100 * value:.1f} %"


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, 6 * repeat + 1))
    shardings = ["iid"] if quick else ["iid", "labels"]
    cases = [(way, sharding, lost, seed) for sharding in shardings for way in WAYS for lost in (0, 0.1)
             for seed in seeds]
    found = dict(zip(cases, two_at_a_time(measured, cases)))
    rows = []
    for sharding in shardings:
        for way in WAYS:
            clean, lossy = ([found[way, sharding, lost, seed] for seed in seeds] for lost in (0, 0.1))
            base = [found["modulo8", sharding, 0, seed] for seed in seeds]
            against = [100 * (one[0] / other[0] - 1) for one, other in zip(clean, base)]
            cost = [100 * (one[0] / other[0] - 1) for one, other in zip(lossy, clean)]
            verdict = "yes" if len(seeds) > 1 and is_same(cost, MARGIN) else "no"
            rows.append([sharding, way, f"{mean([one[1] for one in clean]) / 1e3:.1f} kB",
                         f"{mean([one[0] for one in clean]):.4f}",
                         "" if way == "modulo8" else plus_minus(*interval95(against)), plus_minus(*interval95(cost)),
                         verdict, percent(mean([one[2] for one in lossy])), percent(mean([one[3] for one in clean])),
                         percent(mean([one[3] for one in lossy]))])
            say(f"{rows[-1]}")
    return (f"{data_name()}, {STEPS} steps, rng seeds {seeds}, virtual time. Sent: a step of an agent, nothing lost. "
            "Not whole: of the exchanges with 10 % of the frames lost; left out: of the blocks, by the codec, without "
            "and with loss.\n\n"
            + table(["data", "way", "sent", "loss", "against modulo8", "10 % lost against none", f"within {MARGIN} %",
                     "not whole", "left out", "left out, lossy"], rows))
