"""Accuracy by label of pairs that mix matrices along one or two directions, beside fragments of as many bytes."""
from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

STEPS, AGENTS, TRIAL, SEEDS = 600, 8, 101, 5
RATES = [0.01 * 3 ** i for i in range(-2, 3)]
CONFIG = f"""
swarm:
  name: low_rank_pairs
  model: {{kind: mlp, hidden: [64]}}
  optimizer: {{kind: sgd, momentum: 0, warmup: 0}}
  batch: 16
  local_steps: 1
  stop_after: {STEPS}
  exchange: {{kind: pairwise, codec: modulo8, carry: [params], deadline_min: 20ms, deadline_max: 500ms}}
agent:
  threads: 1
  data: {{sharding: labels}}
"""
FLAGS = ["--every", 1, "--latency", "10ms", "--rate", "10mbit", "--compute", "20ms"]


def fragments(count):
    return {"codec": "modulo4", "block": 512, "fragments": count}


WAYS = {"modulo8": {}, "rank 1": {"powergossip__rank": 1}, "modulo4, fragments 13": fragments(13),
        "rank 2": {"powergossip__rank": 2}, "modulo4, fragments 7": fragments(7)}
AGAINST = {"rank 1": "modulo4, fragments 13", "rank 2": "modulo4, fragments 7"}
LOSSY = "rank 1"


def measured(case):
    """Accuracy in percent and loss of the agents' own models in the last quarter; kB a step of an agent; seconds; the
    part of the exchanges that were not whole, and of the blocks that the codec left out."""
    way, rate, lost, seed = case
    summary, rows = simulate(CONFIG, AGENTS, [*FLAGS, "--loss", lost, "--seed", seed], agent__data__path=data(),
                             swarm__optimizer__learning_rate=rate,
                             **{f"swarm__exchange__{key}": value for key, value in WAYS[way].items()})
    late = [row for row in rows if row["series"] == "swarm" and row["agent"] != ""
            and 0.75 * STEPS <= int(row["step"]) <= STEPS]
    last = [row for row in rows if row["series"] == "mean" and int(row["step"]) < STEPS][-1]
    exchanges, steps = summary["exchanges"], int(last["step"])
    ended = exchanges["done"] + exchanges["late"] + exchanges["failed"]
    return {"accuracy": 100 * mean(float(row["accuracy"]) for row in late),
            "loss": mean(float(row["loss"]) for row in late),
            "kb": float(last["bytes"]) / steps / AGENTS / 1e3, "seconds": float(last["virtual_s"]) * STEPS / steps,
            "not_whole": 100 * (ended - exchanges["done"]) / ended,
            "left_out": 100 * summary["blocks"]["refused"] / summary["blocks"]["due"]}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def best_rates(say):
    cases = [(way, rate, 0, TRIAL) for way in WAYS for rate in RATES]
    found = dict(zip(cases, two_at_a_time(measured, cases)))
    best = {}
    for way in WAYS:
        losses = {rate: found[way, rate, 0, TRIAL]["loss"] for rate in RATES}
        finite = {rate: loss for rate, loss in losses.items() if loss == loss}
        best[way] = min(finite, key=finite.get)
        say(f"{way}: {({f'{rate:.2g}': round(loss, 3) for rate, loss in losses.items()})}")
    return best


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, SEEDS * repeat + 1))
    rates = dict.fromkeys(WAYS, 0.03) if quick else best_rates(say)
    kinds = [(way, 0) for way in WAYS] + [(LOSSY, 0.1)]
    cases = [(way, rates[way], lost, seed) for way, lost in kinds for seed in seeds]
    found = dict(zip(cases, two_at_a_time(measured, cases)))
    rows = []

    def of(way, lost, key):
        return [found[way, rates[way], lost, seed][key] for seed in seeds]

    def interval(values, digits):
        middle, half = interval95(values)
        return f"{middle:.{digits}f} ± {half:.{digits}f}"

    def difference(way, lost, other, key, digits):
        return interval([a - b for a, b in zip(of(way, lost, key), of(other, 0, key))], digits)
    for way, lost in kinds:
        name = way if lost == 0 else f"{way}, 10 % lost"
        rows.append([name, f"{rates[way]:.2g}", interval(of(way, lost, "accuracy"), 1),
                     interval(of(way, lost, "loss"), 3), f"{mean(of(way, lost, 'kb')):.1f}",
                     f"{mean(of(way, lost, 'seconds')):.1f}", f"{mean(of(way, lost, 'not_whole')):.1f} %",
                     f"{mean(of(way, lost, 'left_out')):.1f} %"])
        say(f"{rows[-1]}")
    for way, other in AGAINST.items():
        rows.append([f"{way} minus {other}", "", difference(way, 0, other, "accuracy", 1),
                     difference(way, 0, other, "loss", 3), "", "", "", ""])
    rows.append([f"{LOSSY}, 10 % lost, minus none", "", difference(LOSSY, 0.1, LOSSY, "accuracy", 1),
                 difference(LOSSY, 0.1, LOSSY, "loss", 3), "", "", "", ""])
    return (f"{data_name()}, {AGENTS} agents by label, {STEPS} steps, rng seeds {seeds}, rates by trial seed {TRIAL}, "
            "virtual time.\n\n"
            + table(["way", "rate", "accuracy, %", "loss", "kB a step", "seconds", "not whole", "left out"], rows))
