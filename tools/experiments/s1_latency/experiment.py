"""Time of one round: D-PSGD and pairwise exchanges against gloo's all-reduces, over a grid of links.

Reading: Where latency rules, a round of D-PSGD is several times faster than all-reduce. On thin links in fp32 it is
slower, since two payloads leave each node. All-reduce every eighth step is faster a step, and mixes less often.
"""

import concurrent.futures
import time

from counting import exchange_ms, noise, round_ms, steps_per_s
from lib import JOIN_MBIT, LinkedSwarm, Links, check_link, gloo, middle, pace, swarm_config, table, wait_exchanges

AGENTS, PARAMS, COMPUTE_MS = 8, 235_000, 1
MEGABYTES = 4 * PARAMS / 1e6
DELAYS_MS, RATES_MBIT = (0, 1, 5, 10), (5, 10, 100, 1000)
THIN_MBIT = 10  # cells up to here are measured side by side
QUICK = [(10, 1000), (0, 1000), (1, 100)]
BASELINES = {"gloo ring": "ring", "gloo halving-doubling": "halving_doubling", "gloo bcube": "bcube"}
OURS = {  # exchange, topology, exchanges that an agent begins in a round
  "D-PSGD ring": ({"kind": "neighborhood"}, "ring", 2),
  "D-PSGD ring, overlap": ({"kind": "neighborhood", "overlap": "on"}, "ring", 2),
  "pairwise modulo8": ({"kind": "pairwise", "codec": "modulo8"}, "matching", 1),
}


def ours(name, delay_ms, rate_mbit):
  """(ms per round, ms per step): medians over the agents. Beside running steps a round is one when its exchanges have
  ended, otherwise it is a step with its exchanges."""
  exchange, topology, per_round = OURS[name]
  transfer = 2 * MEGABYTES * 8 / rate_mbit * (0.25 if exchange.get("codec") == "modulo8" else 1)
  ideal = 3e-3 * delay_ms + transfer  # seconds
  deadline = f"{max(1, 3 * ideal):.1f}s"  # nobody fails here: only the link and its queue are slow
  config = swarm_config(PARAMS, {**exchange, "deadline_min": deadline, "deadline_max": deadline}, topology)
  with (
    Links(AGENTS, delay_ms, max(rate_mbit, JOIN_MBIT)) as links,
    LinkedSwarm(config, links, its_pace=lambda i: pace(COMPUTE_MS)) as swarm,
  ):
    wait_exchanges(swarm.agents, 4, 60)
    links.tell(f"rate all {rate_mbit}")
    time.sleep(1)
    wait_exchanges(swarm.agents, 2 * per_round, 120)
    begin = time.time()
    time.sleep(2)
    wait_exchanges(swarm.agents, 8 * per_round + 1, 240)  # with fewer, the window's edges would weigh too much
    end = time.time()
    logs = [agent.lines() for agent in swarm.agents]
    steps = [1e3 / max(steps_per_s(lines, begin, end), 1 / (end - begin)) for lines in logs]
    if exchange.get("overlap") == "on":
      return middle([exchange_ms(lines, begin, end, per_round) for lines in logs]), middle(steps)
    return middle([round_ms(lines, begin, end) for lines in logs]), middle(steps)


def baseline(name, delay_ms, rate_mbit):
  with Links(AGENTS, delay_ms, rate_mbit) as links:
    result = gloo(links, PARAMS, 3, BASELINES[name], compute_ms=COMPUTE_MS)
    return 1e3 / result["rounds_per_s"]


def measure_cell(delay_ms, rate_mbit, repeat, say):
  """name -> the ms per round of each repeat."""
  rounds = {name: [] for name in (*BASELINES, *OURS)}
  steps = []
  for _ in range(repeat):  # interleaved, so that a busy minute hits all alike
    for name in BASELINES:
      rounds[name].append(baseline(name, delay_ms, rate_mbit))
    for name in OURS:
      ms, per_step = ours(name, delay_ms, rate_mbit)
      rounds[name].append(ms)
      if name.endswith("overlap"):
        steps.append(per_step)
  say(f"{delay_ms} ms, {rate_mbit} Mb/s: " + ", ".join(f"{k} {middle(v):.1f}" for k, v in rounds.items()))
  return rounds, steps


def row(delay_ms, rate_mbit, rounds):
  ms = {name: middle(values) for name, values in rounds.items()}
  best = min(ms[name] for name in BASELINES)
  gossip = min(ms["D-PSGD ring"], ms["D-PSGD ring, overlap"])
  every8 = COMPUTE_MS + (ms["gloo ring"] - COMPUTE_MS) / 8
  cells = [
    delay_ms,
    rate_mbit,
    *(f"{ms[name]:.1f}" for name in BASELINES),
    f"{every8:.1f}",
    *(f"{ms[name]:.1f}" for name in OURS),
  ]
  ratios = [ms["gloo ring"] / gossip, best / gossip, best / ms["pairwise modulo8"]]
  return cells + [f"{ratio:.1f}x" for ratio in ratios], ratios


TABLES = [
  ("ms a round", ["delay ms", "Mb/s"]),
  ("noise", None),
]


def run(repeat=1, quick=False, say=print):
  cells = QUICK if quick else [(delay, rate) for rate in reversed(RATES_MBIT) for delay in DELAYS_MS]
  often = {cell: 3 * repeat if cell in QUICK else repeat for cell in cells}  # the noise is seen on these
  measured = {cell: measure_cell(*cell, often[cell], say) for cell in cells if cell[1] > THIN_MBIT}
  with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they leave the processors idle
    thin = [cell for cell in cells if cell[1] <= THIN_MBIT]
    measured.update(zip(thin, pool.map(lambda cell: measure_cell(*cell, often[cell], say), thin)))
  rows, noises, goals = [], [], []
  for delay, rate in cells:
    rounds, steps = measured[delay, rate]
    cell, ratios = row(delay, rate, rounds)
    rows.append(cell)
    if often[delay, rate] > 1:
      worst = {name: f"{noise(values):.0f} %" for name, values in rounds.items()}
      noises.append([f"{delay} ms, {rate} Mb/s", often[delay, rate], *worst.values()])
    if (delay, rate) == (10, 1000):
      checked = check_link(delay, rate)
      goals = [
        (
          f"- at 10 ms, 1 Gb/s: {ratios[0]:.1f}x gloo's ring (goal >= 10: "
          f"{'met' if ratios[0] >= 10 else 'missed'}), {ratios[1]:.1f}x the best all-reduce (goal >= 2: "
          f"{'met' if ratios[1] >= 2 else 'missed'})"
        ),
        f"- an empty link of that cell: round trip {checked['round_trip_ms']:.1f} ms, {checked['rate_mbit']:.0f} Mb/s",
        f"- with overlap the agents take a step every {middle(steps):.2f} ms in that cell",
      ]
  head = [
    "delay ms",
    "Mb/s",
    *BASELINES,
    "gloo ring every 8 (/8)",
    *OURS,
    "ring / D-PSGD",
    "best / D-PSGD",
    "best / pairwise",
  ]
  text = "ms per round (for all-reduce: per step), median of the repeats; ratios above 1: we are faster.\n\n"
  text += table(head, rows) + "\n" + "\n".join(goals) + "\n"
  if noises:
    text += "\nNoise (A/A): half the spread of the repeats.\n\n"
    text += table(["cell", "repeats", *BASELINES, *OURS], noises)
  return text
