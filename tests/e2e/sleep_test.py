"""Machines that sleep: the steady clock stands still, the wall clock does not, and nothing reaches them. Meanwhile the
others close their links to them, of which the sleepers never hear. Each agent runs on a machine of its own."""

import signal
import subprocess
import time

import machines
import swarm
import updates_test

PORT = 7400
HOURS_S = 3 * 3600
AWAKE_S = 10  # within which one that woke has exchanged, by its log; it takes a second where no others run
SEEN_S = 20  # within which another one has seen it, by the clock of this test
UNSET_S = 20  # where no clock tells of the sleep; it takes eight
EXCHANGES = 5
STOOD_S = 7  # beside the time that the others take to give it up
OWNERS = ['kind=group', 'overlap=off', 'deadline_min=100ms', 'deadline_max=1s']


class Sleep(machines.Case, updates_test.Agreeing):
  def three(self, *settings, codec='modulo8', steps=2):
    """Agents a, b and c, on machines of these names."""
    flags = ['--set', f'swarm.local_steps={steps}']
    flags += [word for setting in settings for word in ('--set', 'swarm.exchange.' + setting)]
    begin = ['--config', self.quadratic(dimension=100_000, codec=codec), *flags]
    agents, self.clocks_of = [], {}
    for i, name in enumerate('abc'):
      self.machine(name, f'10.77.0.{i + 1}/24')
      self.clocks_of[name] = self.clocks(name)
      environment = self.clocks_of[name].environment
      agents.append(self.agent_on(name, name, *begin, '--listen', f'[::]:{PORT}', environment=environment))
      begin = ['--bootstrap', self.way_to(agents[0])]
    self.wait(lambda: all(agent.done() >= EXCHANGES for agent in agents), 'exchanges of all')
    return agents

  def fall_asleep(self, sleepers, others):
    """Until the others have given them up, and have closed their links."""
    self.asleep_since = time.monotonic()
    for sleeper in sleepers:
      sleeper.send(signal.SIGSTOP)
      machines.ip('link', 'set', f'to-{sleeper.name}', 'down')
    for other in others:
      for sleeper in sleepers:
        self.wait(lambda: other.last('member', peer=sleeper.peer(), change='died'), f'{sleeper.name} to be given up')
        self.forget_links(other.name, sleeper.address().rpartition(':')[0])

  def forget_links(self, machine, host):
    """As a router between the two does: what still comes by them is lost without an answer."""
    links = ['ip', 'netns', 'exec', machine, 'ss', '-H', '-tan', 'dst', host]
    for line in subprocess.run(links, check=True, capture_output=True, text=True).stdout.splitlines():
      ours, theirs = (end.rpartition(':')[2] for end in line.split()[3:5])
      self.at(machine, 'rule', 'add', 'to', host, 'ipproto', 'tcp', 'sport', ours, 'dport', theirs, 'blackhole')
    subprocess.run([*links, '-K'], check=True, capture_output=True)

  def wake(self, sleepers, boot=HOURS_S, wall=HOURS_S):
    """The moment. Of the clocks since boot and on the wall: how far they went on beyond the time of the test; None:
    they stood still as well."""
    slept = time.monotonic() - self.asleep_since
    self.wall_ahead = -slept if wall is None else wall
    for sleeper in sleepers:
      clocks = self.clocks_of[sleeper.name]
      clocks.turn(wall=self.wall_ahead, monotonic=-slept, boot=-slept if boot is None else boot)
      machines.ip('link', 'set', f'to-{sleeper.name}', 'up')
    for sleeper in sleepers:
      sleeper.send(signal.SIGCONT)
    return time.time()

  def assert_back(self, sleepers, others, woke, within=AWAKE_S):
    before = {sleeper: sleeper.done() for sleeper in sleepers}

    def since(sleeper):
      """After how long it had ended enough exchanges, by its own clock, as all of this waits for processors too."""
      done = [event for event in sleeper.events('exchange') if event['outcome'] == 'done'][before[sleeper] :]
      return len(done) >= EXCHANGES and done[EXCHANGES - 1]['t'] - self.wall_ahead - woke

    for sleeper in sleepers:
      took = self.wait(lambda: since(sleeper), f'exchanges of {sleeper.name}')
      print(f'# {sleeper.name} is back after {took:.1f} s')
      self.assertLess(took, within, self.logs())
      for other in others:
        self.wait(
          lambda: other.last('member', peer=sleeper.peer())['change'] == 'alive', f'{other.name} to see it', SEEN_S
        )
    done = {other: other.done() for other in others}
    self.wait(lambda: all(other.done() >= done[other] + EXCHANGES for other in others), 'exchanges of the others')
    self.assert_all_run([*sleepers, *others])
    for false in ('cannot be reached', 'clocks was wrong'):
      self.assertNotIn(false, ''.join(agent.log() for agent in [*sleepers, *others]))

  def test_one_that_slept_for_hours(self):
    a, b, c = self.three()
    self.fall_asleep([b], [a, c])
    self.exchanges_go_on(a, c)
    self.assert_back([b], [a, c], self.wake([b]))
    self.wait_log(b, f'stood still for {HOURS_S // 1000}', 'its links are made anew')

  def test_the_one_that_all_joined_by_wakes_elsewhere(self):
    a, b, c = self.three()
    self.fall_asleep([a], [b, c])
    self.at('a', 'addr', 'flush', 'dev', 'eth0', 'scope', 'global')
    self.address('a', '10.77.0.11/24')
    self.assert_back([a], [b, c], self.wake([a]))
    self.wait_log(a, f'others reach this agent at 10.77.0.11:{PORT}')

  def test_two_of_three(self):
    """Virtual machines on a host that slept: it sets the wall clock alone."""
    a, b, c = self.three()
    self.fall_asleep([a, b], [c])
    self.assert_back([a, b], [c], self.wake([a, b], boot=None))
    for sleeper in (a, b):
      self.wait_log(sleeper, f'stood still for {HOURS_S // 1000}', 'or its clock was set ahead')

  def test_a_virtual_machine_that_never_hears_of_it(self):
    a, b, c = self.three()
    self.fall_asleep([b], [a, c])
    self.assert_back([b], [a, c], self.wake([b], boot=None, wall=None), UNSET_S)

  def test_a_process_that_stood_still(self):
    """All clocks go on, and the kernel keeps its links."""
    a, b, c = self.three()
    b.send(signal.SIGSTOP)
    for other in (a, c):
      self.wait(lambda: other.last('member', peer=b.peer(), change='died'), 'b to be given up')
    swarm.pause(STOOD_S)
    self.wall_ahead = 0
    b.send(signal.SIGCONT)
    self.assert_back([b], [a, c], time.time())
    self.wait_log(b, 'stood still for')

  def test_an_owner_of_slices_of_updates(self):
    a, b, c = agents = self.three('source=updates', *OWNERS, steps=60)
    self.fall_asleep([b], [a, c])
    woke = self.wake([b])
    self.assert_back([b], [a, c], woke)
    self.wait(lambda: self.all_agree(agents, woke), 'one log')

  def test_an_owner_of_slices_of_a_group(self):
    a, b, c = self.three(*OWNERS, codec='bf16')
    self.fall_asleep([b], [a, c])
    self.exchanges_go_on(a, c)
    self.assert_back([b], [a, c], self.wake([b]))


if __name__ == '__main__':
  machines.run()
