"""Step rate of seven agents while the eighth is four times slower, or paused, against all-reduce.

Reading: Pairs and neighborhoods keep their rate beside a slow or paused agent. All-reduce takes the pace of the
slowest and stands still during a pause. Stalls at the edges of the window did not show in these rates.
"""

import os
import signal
import time

import counting
from counting import noise
from lib import LinkedSwarm, Links, gloo, middle, pace, swarm_config, table, wait_exchanges

AGENTS, PARAMS, COMPUTE_MS, SLOW_MS, PAUSE_S = 8, 235_000, 20, 80, 2
DELAY_MS, RATE_MBIT = 1, 1000
SYSTEMS = {  # exchange, topology, exchanges that an agent begins in a round
  "pairwise": ({"kind": "pairwise", "codec": "modulo8", "overlap": "on"}, "matching", 1),
  "neighborhood (ring)": ({"kind": "neighborhood", "overlap": "on"}, "ring", 2),
}


def ours(name, seconds):
  """(equal, one slow, one paused): each (steps/s, rounds/s) of the seven others; and the gap in the pause."""
  exchange, topology, per_round = SYSTEMS[name]
  config = swarm_config(
    PARAMS,
    {**exchange, "deadline_min": "20ms", "deadline_max": "500ms"},
    topology,
    membership={"probe_interval": "1s", "probe_timeout": "500ms"},
  )

  def watched(slow_ms, pause):
    def its_pace(i):
      return pace(slow_ms if i == AGENTS - 1 else COMPUTE_MS)

    with Links(AGENTS, DELAY_MS, RATE_MBIT) as links, LinkedSwarm(config, links, its_pace=its_pace) as swarm:
      others, last = swarm.agents[:-1], swarm.agents[-1]
      wait_exchanges(swarm.agents, 10, 60)
      time.sleep(3)  # who does not keep pace is known by then
      begin = time.time()
      if pause:
        os.kill(last.process.pid, signal.SIGSTOP)
      time.sleep(PAUSE_S if pause else seconds)
      end = time.time()
      if pause:
        os.kill(last.process.pid, signal.SIGCONT)
      time.sleep(0.2)
      logs = [agent.lines() for agent in others]
      return (
        middle([counting.steps_per_s(lines, begin, end) for lines in logs]),
        middle([1e3 / counting.exchange_ms(lines, begin, end, per_round) for lines in logs]),
        max(counting.longest_gap_ms(lines, begin, end) for lines in logs),
      )

  return watched(COMPUTE_MS, False), watched(SLOW_MS, False), watched(COMPUTE_MS, True)


def allreduce(seconds):
  def rate(**options):
    with Links(AGENTS, DELAY_MS, RATE_MBIT) as links:
      return gloo(links, PARAMS, seconds, "ring", compute_ms=COMPUTE_MS, **options)

  equal, slow = rate(), rate(slow_ms=SLOW_MS)
  paused = rate(pause_ms=1e3 * PAUSE_S)
  return equal["rounds_per_s"], slow["rounds_per_s"], paused["max_ms"]


TABLES = [
  ("rate of the others", ["system"]),
  ("mixing", ["system"]),
]


def run(repeat=1, quick=False, say=print):
  seconds = 4 if quick else 8
  head = [
    "system",
    "equal",
    "one 4x slower",
    "kept, one 4x slower",
    "in the pause",
    "kept, in the pause",
    "longest gap ms",
  ]
  rows, mixing, notes = [], [], []
  for name in SYSTEMS:
    runs = [ours(name, seconds) for _ in range(repeat)]
    equal, slow, paused = ([middle([run[k][j] for run in runs]) for j in range(3)] for k in range(3))
    kept = [100 * slow[0] / equal[0], 100 * paused[0] / equal[0]]
    rows.append(
      [
        name,
        f"{equal[0]:.1f}",
        f"{slow[0]:.1f}",
        f"{kept[0]:.1f} %",
        f"{paused[0]:.1f}",
        f"{kept[1]:.1f} %",
        f"{paused[2]:.0f}",
      ]
    )
    mixing.append([name, f"{equal[1]:.1f}", f"{slow[1]:.1f}", f"{paused[1]:.1f}"])
    verdict = ["met" if x >= 95 else "missed" for x in kept]
    notes.append(
      f"- {name}, goal >= 95 %: slow {verdict[0]}, paused {verdict[1]}; A/A noise of the equal rate "
      f"{noise([run[0][0] for run in runs]):.1f} % over {repeat} repeats"
    )
    say(f"{name}: {rows[-1][1:]} {mixing[-1][1:]}")
  runs = [allreduce(seconds) for _ in range(repeat)]
  equal, slow, stall = (middle([run[k] for run in runs]) for k in range(3))
  during = max(0, 1e3 * PAUSE_S - stall + 1e3 / equal) / (1e3 * PAUSE_S) * equal
  rows.append(
    [
      "all-reduce (gloo ring)",
      f"{equal:.1f}",
      f"{slow:.1f}",
      f"{100 * slow / equal:.1f} %",
      f"{during:.1f}",
      f"{100 * during / equal:.1f} %",
      f"{stall:.0f}",
    ]
  )
  say(f"all-reduce: {rows[-1][1:]}")
  return (
    "Step rate of the other seven, median over them.\n\n"
    + table(head, rows)
    + "\nMixing of the other seven: rounds, or exchanges that an agent began (pairwise), a second.\n\n"
    + table(["system", "equal", "one 4x slower", "in the pause"], mixing)
    + "\n"
    + "\n".join(notes)
    + "\n"
  )
