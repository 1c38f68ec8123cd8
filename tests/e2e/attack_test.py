"""A stranger against a swarm of real agents, one attack after the other: nobody ends, exchanges go on, nobody's loss
grows, memory stays.

Each attack has a swarm of its own. Exchanges are counted while the stranger works against a sink, which costs the
machine as much, and then while it works against the swarm. A swarm takes an eighth of a core, and most of its time
goes by in waiting, so LANES of them are besieged beside each other. STARLING_STRANGER names the stranger's program,
STARLING_ATTACKS the attacks (all), STARLING_ATTACK_SEEDS how many times each. With STARLING_ATTACK_CLEAN=N no swarm is
attacked: N pairs of counts, both with the sink, say what LOSS_MAX has to be.

STARLING_ATTACK_BY=member: the stranger is a member of a certified swarm. STARLING_ATTACK_BY=outsider: instead of it,
tools/attack/outsider.py attacks a certified swarm and an open one.
"""

import concurrent.futures
import contextlib
import os
import re
import statistics
import subprocess
import sys
import threading
import time

import swarm

STRANGER = os.environ.get('STARLING_STRANGER', 'build/meson/tools/stranger')
BY = os.environ.get('STARLING_ATTACK_BY', 'stranger')
OUTSIDER = [sys.executable, swarm.ROOT / 'tools/attack/outsider.py']
NICE = [] if BY == 'outsider' else ['nice', '-n', '19']  # a nice outsider would do little on a busy machine
ATTACKER = OUTSIDER if BY == 'outsider' else [*NICE, STRANGER]
AGENTS = 4 if BY == 'outsider' else 8
LANES = 1 if BY == 'outsider' else 4  # swarms beside each other
SECONDS = 5  # of each count
PAIRS = 10  # a busy machine may spoil a count: that many tries
FOUNDING_S = 11  # who is met before then counts like a founder
KEPT_MIN = {'stranger': 0.8, 'member': 0.9, 'outsider': 0.95}
MEMBERS = ('beside', 'blocks', 'empty', 'endless', 'idle')  # of the outsider's: a member's where there are tickets
LOSS_MAX = 1.04  # the worst agent's loss, over that without the attack: the 99 % point of ten clean pairs
T_99_OF_TEN = 2.821  # of nine degrees of freedom, one-sided
# Beyond what the process had before, at any time; a busy machine keeps the gate that bounds an outsider's waiting.
MEMORY_MAX = (128 if BY == 'outsider' else 64) << 20
KEPT_MEMORY_MAX = 32 << 20  # the same, when the links are closed again
CLOSING_S = 4  # a handshake's time, and what is kept until it is given back
FORGING = ('clock', 'farewells', 'generation')
CUT = ('beside', 'blocks', 'empty', 'endless', 'half_open')  # of an outsider's: they cost their links
ONE_STARTS = threading.Lock()  # of the lanes: a port is free until it is bound

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
  checkpoint: {every: 5s, keep: 3}
"""
if BY == 'outsider':  # a loop with no time left shows what its thread loses
  CONFIG = CONFIG.replace('round: 100ms', 'local_steps: 2')


def all_attacks():
  lines = subprocess.run([*ATTACKER, '--list'], capture_output=True, text=True, check=True).stdout.splitlines()
  return [line.split()[0] for line in lines]


def memory_bytes(process, field='VmRSS'):
  with open(f'/proc/{process.child.pid}/status') as file:
    return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ':'))


def forget_memory_peak(process):
  # Of a process with keys only root may: else the peak of its start is taken for the attack's.
  with contextlib.suppress(PermissionError), open(f'/proc/{process.child.pid}/clear_refs', 'w') as file:
    file.write('5')


def done_between(agent, since, until):
  return sum(event['outcome'] == 'done' and since < event['t'] <= until for event in agent.events('exchange'))


def of_all(counts):
  """Of counts of exchanges and losses: the most exchanges, the median loss: chance moves losses both ways."""
  return max(done for done, _ in counts), statistics.median(loss for _, loss in counts)


def age_s(agent):
  return agent.last('status')['t'] - agent.last('joined')['t']


class Besieged(swarm.Case):
  def stranger(self, name, *arguments, command):
    process = self.start(name, *command[1:], *arguments, program=command[0])
    self.wait(lambda: 'ready' in process.log() or not process.running(), f'{name} to be ready')
    self.assertIn('ready', process.log(), process.log())
    return process

  def worst_loss(self, since):
    """Of any agent, on average over its reports since then."""
    reports = [[event['loss'] for event in agent.events('status') if event['t'] > since] for agent in self.agents]
    self.assertFalse([losses for losses in reports if None in losses], 'an agent began anew' + self.logs())
    return max(map(statistics.mean, reports))

  def attacker(self, attack, *arguments):
    """Each has ids of its own: by a ticket, one. That of the sink is the sink's."""
    self.counts += 1
    ticket = 0 if '--sink' in arguments else self.counts
    target = self.tickets[ticket] if self.tickets else self.agents[0].address()
    seed = 100 * self.seed + self.counts
    fixed = [attack, target, '--seconds', SECONDS + 30, '--seed', seed]
    return self.stranger(f'stranger{self.counts}', *fixed, *arguments, command=ATTACKER)

  def count(self, *attack):
    """Exchanges that the agents complete in SECONDS of the attack; the worst loss."""
    began = max(agent.last('status')['t'] for agent in self.agents)
    process = self.attacker(*attack)
    since = time.time()
    swarm.pause(SECONDS)
    done = sum(done_between(agent, since, since + SECONDS) for agent in self.agents)  # to read them takes time
    loss = self.worst_loss(began)
    self.assert_all_run([process])
    process.kill()
    if BY == 'outsider':
      did = process.log().splitlines()[-1]
      self.assertRegex(did, r'^(?!0.0 )[\d.]+ links and ', 'it has done something')
      print(f'# {" ".join(attack)}: {did}', flush=True)
    return done, loss

  def certified_swarm(self, path):
    """The first agent holds the swarm's key, and admits the others and the attackers."""
    path.write_text(CONFIG.replace('swarm:\n', 'swarm:\n  trust: certified\n'))
    first = self.agent('a', '--config', path)
    self.joined(first)
    admit = ['admit', '--new', '--count', AGENTS + 2 * PAIRS, '--out', 'tickets', '--state', first.state]
    command = self.start('admit', *admit, working=self.folder)
    self.assertEqual(self.wait_end(command), 0, command.log())
    self.tickets = [file.read_text().strip() for file in sorted((self.folder / 'tickets').iterdir())]
    self.agents = [first] + [self.joiner(f'b{i}', self.tickets.pop()) for i in range(AGENTS - 1)]
    for agent in self.agents:
      self.joined(agent)

  def make_swarm(self, seed, trust='open'):
    """The agents, once they are used to each other."""
    self.seed, self.counts, self.tickets = seed, 0, []
    path = self.folder / 'besieged.yaml'
    path.write_text(CONFIG)
    with ONE_STARTS:
      if trust == 'certified':
        self.certified_swarm(path)
      else:
        self.agents = self.swarm(AGENTS, path)[1]
    self.wait(lambda: all(agent.done() >= 20 for agent in self.agents), 'exchanges to be usual')

  def sink(self):
    return self.stranger('sink', 'sink', *self.tickets[:1], command=[*NICE, STRANGER]).log().split()[-1]

  def wait_for_no_founders(self):
    self.wait(lambda: all(age_s(agent) > FOUNDING_S for agent in self.agents), 'newcomers to be no founders')

  def besiege(self, attack, seed, trust='open'):
    kept_min = KEPT_MIN['member' if BY == 'outsider' and attack in MEMBERS else BY]
    self.make_swarm(seed, trust)
    calm = (attack, '--sink', self.sink())
    before = [memory_bytes(agent) for agent in self.agents]
    quiet, besieged, peak, left = [], [], 0, 0

    def grown(field):
      return max(memory_bytes(agent, field) - memory for agent, memory in zip(self.agents, before))

    for _ in range(PAIRS):
      quiet.append(self.count(*calm))  # an earlier stranger may not be forgotten yet
      self.wait_for_no_founders()
      for agent in self.agents:
        forget_memory_peak(agent)
      besieged.append(self.count(attack))
      peak = max(peak, grown('VmHWM'))
      if BY == 'outsider':
        swarm.pause(CLOSING_S)
      left = grown('VmRSS')
      kept, worse = (of_all(besieged)[i] / of_all(quiet)[i] for i in range(2))
      print(
        f'# {attack}, {trust}, seed {seed}, {len(quiet)} pairs: {of_all(besieged)[0]} exchanges of {of_all(quiet)[0]} '
        f'({kept:.2f}), worst loss {worse:.3f}, memory {max(before) / 2**20:.0f} MiB, at most {peak / 2**20:+.1f}, '
        f'then {left / 2**20:+.1f}',
        flush=True,
      )
      if kept >= kept_min and worse <= LOSS_MAX:
        break
    self.assert_all_run(self.agents)
    self.assertGreater(of_all(quiet)[0], AGENTS * SECONDS)
    self.assertGreaterEqual(kept, kept_min, self.logs())
    self.assertLessEqual(worse, LOSS_MAX, self.logs())
    self.assertLess(peak, MEMORY_MAX)
    if BY == 'member':
      joined = [agent for agent in self.agents if re.search(r'stranger \(\w+\) joined', agent.log())]
      self.assertTrue(joined, 'no agent took the attacker for a member' + self.logs())
    if BY == 'member' and attack in FORGING:
      self.assertGreater(self.agents[0].last('status')['membership']['records_forged'], 0)
    if BY == 'outsider' and attack in CUT:
      self.assertGreater(self.agents[0].last('status')['links']['cut'], 0)
    self.assertLess(left, KEPT_MEMORY_MAX if BY == 'outsider' else MEMORY_MAX)

  def clean_pair(self, seed):
    self.make_swarm(seed)
    garbage = ('garbage', '--sink', self.sink())
    before = self.count(*garbage)[1]
    self.wait_for_no_founders()
    ratio = self.count(*garbage)[1] / before
    print(f'# clean pair {seed}: worst loss {ratio:.3f}', flush=True)
    return ratio

  def clean_pairs(self, count):
    ratios = [pair.result() for pair in [in_a_lane(Besieged.clean_pair, seed) for seed in range(1, count + 1)]]
    mean, deviation = statistics.mean(ratios), statistics.stdev(ratios)
    point = mean + T_99_OF_TEN * deviation * (1 + 1 / count) ** 0.5
    print(f'# mean {mean:.3f}, deviation {deviation:.3f}, the 99 % point of the next pair {point:.3f}', flush=True)


def in_a_lane(what, *arguments):
  """What comes of it, on a case of its own, as a future."""

  def run():
    case = Besieged(what.__name__)
    case.setUp()
    try:
      return what(case, *arguments)
    finally:
      case.tearDown()

  return POOL.submit(run)


POOL = concurrent.futures.ThreadPoolExecutor(LANES)


def add_cases():
  clean = int(os.environ.get('STARLING_ATTACK_CLEAN', '0'))
  if clean:
    Besieged.test_clean_pairs = lambda self: self.clean_pairs(clean)
    return
  wanted = os.environ.get('STARLING_ATTACKS', '').split()
  seeds = int(os.environ.get('STARLING_ATTACK_SEEDS', '1'))
  named = [
    attack
    for attack in wanted or all_attacks()
    if not sys.argv[1:] or any(word in f'test_{attack}' for word in sys.argv[1:])
  ]
  trusts = {'stranger': ['open'], 'member': ['certified'], 'outsider': ['certified', 'open']}[BY]
  for attack in sorted(named):  # in the order of the cases
    sieges = [in_a_lane(Besieged.besiege, attack, seed, trust) for trust in trusts for seed in range(1, seeds + 1)]

    def case(self, sieges=sieges):
      for siege in sieges:
        siege.result()

    setattr(Besieged, f'test_{attack}', case)


if __name__ == '__main__':
  add_cases()
  swarm.main()
