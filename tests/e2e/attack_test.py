"""A stranger against a swarm of real agents, one attack after the other: nobody ends, exchanges go on, memory stays.

Each attack has a swarm of its own. Exchanges are counted while the stranger works against a sink, which costs the
machine as much, and then while it works against the swarm. STARLING_STRANGER names the stranger's program,
STARLING_ATTACKS the attacks (all), STARLING_ATTACK_SEEDS how many times each.
"""
import os
import subprocess

import swarm

STRANGER = os.environ.get('STARLING_STRANGER', 'build/meson/tools/stranger')
AGENTS = 8 if (os.cpu_count() or 1) >= 4 else 4
SECONDS = 5             # of each count
PAIRS = 3               # a busy machine may spoil a count: that many tries
KEPT_MIN = 0.8
MEMORY_MAX = 64 << 20   # beyond what the process had before
NICE = ['-n', '19']

CONFIG = """
swarm:
  name: besieged
  model: {kind: quadratic, dimension: 1000}
  optimizer: {learning_rate: 0.01, momentum: 0}
  round: 100ms
  exchange: {kind: pairwise, codec: fp32, block: 16384, deadline_min: 20ms, deadline_max: 500ms}
  membership: {probe_interval: 250ms, probe_timeout: 150ms, suspicion: 3}
  stop_after: 100000000
agent:
  compute_ms: 10
  checkpoint: {every: 5s, keep: 3}
"""


def all_attacks():
  lines = subprocess.run([STRANGER, '--list'], capture_output=True, text=True, check=True).stdout.splitlines()
  return [line.split()[0] for line in lines]


def memory_bytes(process):
  with open(f'/proc/{process.child.pid}/status') as file:
    return next(int(line.split()[1]) * 1024 for line in file if line.startswith('VmRSS:'))


class Besieged(swarm.Case):
  def stranger(self, name, *arguments):
    process = self.start(name, *NICE, STRANGER, *arguments, program='nice')
    self.wait(lambda: 'ready' in process.log() or not process.running(), f'{name} to be ready')
    self.assertIn('ready', process.log(), process.log())
    return process

  def count(self, attack, *arguments):
    """Exchanges that the agents complete in SECONDS of the attack, each time with ids of its own."""
    self.counts += 1
    process = self.stranger(f'stranger{self.counts}', attack, self.agents[0].address(), '--seconds', SECONDS + 30,
                            '--seed', 100 * self.seed + self.counts, *arguments)
    before = sum(agent.done() for agent in self.agents)
    swarm.pause(SECONDS)
    done = sum(agent.done() for agent in self.agents) - before
    self.assert_all_run([process])
    process.kill()
    return done

  def besiege(self, attack, seed):
    self.seed, self.counts = seed, 0
    path = self.folder / 'besieged.yaml'
    path.write_text(CONFIG)
    self.agents = self.swarm(AGENTS, path)[1]
    self.wait(lambda: all(agent.done() >= 20 for agent in self.agents), 'exchanges to be usual')
    sink = self.stranger('sink', 'sink').log().split()[-1]
    memory = [memory_bytes(agent) for agent in self.agents]
    figures, alone = [], 0
    for _ in range(PAIRS):
      alone = max(alone, self.count(attack, '--sink', sink))   # an earlier stranger may not be forgotten yet
      besieged = self.count(attack)
      grown = max(memory_bytes(agent) - before for agent, before in zip(self.agents, memory))
      figures.append((besieged, alone, grown))
      print(f'# {attack}, seed {seed}: {besieged} exchanges of {alone} ({besieged / max(alone, 1):.2f}), '
            f'{grown / 2**20:+.1f} MiB', flush=True)
      if besieged >= KEPT_MIN * alone:
        break
    self.assert_all_run(self.agents)
    self.assertGreater(alone, AGENTS * SECONDS)
    self.assertTrue(any(besieged >= KEPT_MIN * alone for besieged, alone, _ in figures), f'{figures}{self.logs()}')
    self.assertLess(figures[-1][2], MEMORY_MAX)


def add_cases():
  wanted = os.environ.get('STARLING_ATTACKS', '').split()
  seeds = int(os.environ.get('STARLING_ATTACK_SEEDS', '1'))
  for attack in wanted or all_attacks():
    def case(self, attack=attack):
      for seed in range(1, seeds + 1):
        self.besiege(attack, seed)
        self.tearDown()
        self.setUp()
    setattr(Besieged, f'test_{attack}', case)


add_cases()

if __name__ == '__main__':
  swarm.main()
