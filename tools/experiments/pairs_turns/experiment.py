"""Time to accuracy of the worst agent: pairs by turns, and pairs beside the steps that share one snapshot."""
from counting import interval95
from lib import table
from simulated import data, data_name, simulate, two_at_a_time

CONFIG = """
swarm:
  name: pairs_turns
  model: {kind: cnn, channels: 16}
  optimizer: {kind: sgd, learning_rate: 0.03, momentum: 0.9, warmup: 0}
  batch: 64
  local_steps: 1
  exchange: {kind: pairwise, codec: modulo8, carry: [params, momentum], deadline_min: 20ms, deadline_max: 500ms}
agent:
  threads: 1
"""
FLAGS = ["--steps", 100000, "--every", 0.25, "--latency", "50ms", "--rate", "100mbit", "--compute", "40ms"]
GOALS = (0.93, 0.95)
TURNS, SHARES, GROUP = "by turns", "in shares", "group"
EXCHANGES = {TURNS: {}, SHARES: {"swarm__exchange__overlap": "on"},
             GROUP: {"swarm__exchange__kind": "group", "swarm__exchange__codec": "bf16",
                     "swarm__exchange__block": 23552, "swarm__exchange__overlap": "off"}}
# agents, data, part of the frames lost, seconds, what is compared
CELLS = [(4, "labels", 0, 12, (TURNS, GROUP)), (2, "labels", 0, 8, (TURNS, GROUP)), (4, "iid", 0, 8, (TURNS, SHARES)),
         (3, "labels", 0, 10, (TURNS, GROUP)), (4, "labels", 0.1, 12, (TURNS, GROUP)),
         (8, "labels", 0, 16, (TURNS, GROUP))]


def reached(case):
    """When the worst agent first reaches each goal, None where it does not; its mean in the last quarter; the
    most steps of an agent."""
    agents, sharding, loss, seconds, exchange, seed = case
    _, rows = simulate(CONFIG, agents, [*FLAGS, "--seconds", seconds, "--loss", loss, "--seed", seed],
                       agent__data__path=data(), agent__data__sharding=sharding, **EXCHANGES[exchange])
    worst = {}
    for row in rows:
        if row["series"] == "swarm" and row["agent"] != "":
            at = float(row["virtual_s"])
            worst[at] = min(worst.get(at, 1), float(row["accuracy"]))
    steps = max(int(row["step"]) for row in rows if row["series"] == "swarm")
    late = [accuracy for at, accuracy in worst.items() if at >= 0.75 * seconds]
    times = [next((at for at in sorted(worst) if worst[at] >= goal), None) for goal in GOALS]
    return times, sum(late) / len(late), steps


def said(times):
    if None in times:
        return f"not in {times.count(None)} of {len(times)} runs"
    return f"{times[0]:.1f} s" if len(times) == 1 else "{:.1f} ± {:.1f} s".format(*interval95(times))


def run(repeat=1, quick=False, say=print):
    seeds = [1] if quick else list(range(1, 2 * repeat + 1))
    cells = [(*cell[:4], exchange) for cell in (CELLS[:1] if quick else CELLS) for exchange in cell[4]]
    results = iter(two_at_a_time(reached, [(*cell, seed) for cell in cells for seed in seeds]))
    rows = []
    for agents, sharding, loss, seconds, exchange in cells:
        found = [next(results) for _ in seeds]
        times = [said([one[0][i] for one in found]) for i in range(len(GOALS))]
        late = 100 * sum(one[1] for one in found) / len(found)
        per_step = 1e3 * seconds * len(found) / sum(one[2] for one in found)
        rows.append([agents, sharding, f"{100 * loss:.0f} %", seconds, exchange, *times, f"{late:.1f} %",
                     f"{per_step:.0f}"])
        say(f"{rows[-1]}")
    return (f"{data_name()}, rng seeds {seeds}, virtual time, worst agent; late: mean of its accuracy over the last "
            "quarter.\n\n" + table(["agents", "data", "frames lost", "s", "exchange", "93 %", "95 %", "late",
                                    "ms a step"], rows))
