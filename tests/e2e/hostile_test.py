"""Bytes from strangers: whatever is thrown at either port of a running agent, it trains and exchanges on."""

import random

import swarm
from raw_links import Plain, connect, greeting, hang_up, long_frame, push, ready

HUGE = 100_000_000
ROUNDS = 20


def memory_peak_bytes(process):
  with open(f'/proc/{process.child.pid}/status') as file:
    for line in file:
      if line.startswith('VmHWM:'):
        return int(line.split()[1]) * 1024
  return 0


class Hostile(swarm.Case):
  def setUp(self):
    super().setUp()
    self.rng = random.Random(7)
    self.registry_port, self.agents = self.swarm(2, self.quadratic())
    self.victim = self.agents[0]
    control = int(self.victim.address().rsplit(':', 1)[1])
    self.ports = (control, control + 1)

  def unharmed(self):
    """All agents go on: a stretch of new steps and exchanges on each."""
    steps, done = [agent.steps() for agent in self.agents], [agent.done() for agent in self.agents]
    self.wait(lambda: all(agent.steps() > before + 100 for agent, before in zip(self.agents, steps)), 'more steps')
    self.wait(lambda: all(agent.done() > before + 10 for agent, before in zip(self.agents, done)), 'more exchanges')
    self.assert_all_run(self.agents)

  def test_random_bytes(self):
    for _ in range(ROUNDS):
      for port in self.ports:
        with connect(port) as link:
          push(link, self.rng.randbytes(self.rng.choice([1, 63, 1000, 100_000])))
    self.unharmed()

  def push_random_frames(self, port):
    with Plain(port).link as link:
      for size in (0, 1, 40, 255):
        push(link, b'\x00' + bytes([size]) + self.rng.randbytes(size))
      push(link, b'\x01\x08' + self.rng.randbytes(8) + long_frame(60_000) + self.rng.randbytes(60_000))
      for _ in range(9):  # far more parts than a frame has
        push(link, b'\x01\x04' + self.rng.randbytes(4))
      push(link, b'\x00\x04' + self.rng.randbytes(4))
      hang_up(link)

  def test_random_frames_behind_a_proper_handshake(self):
    for _ in range(ROUNDS):
      for port in self.ports:
        self.push_random_frames(port)
    self.wait_log(self.victim, ' refused (')
    self.unharmed()

  def test_a_registry_warns_of_random_frames_too(self):
    self.push_random_frames(self.registry_port)
    self.wait_log(self.bootstrap, ' refused (')
    self.unharmed()

  def test_frames_of_100_mb(self):
    before = memory_peak_bytes(self.victim)
    piece = bytes(1 << 20)
    for port in self.ports:
      with Plain(port).link as link:
        sent = 0
        if push(link, long_frame(HUGE)):
          while sent < HUGE and push(link, piece):
            sent += len(piece)
        self.assertLess(sent, HUGE, f'port {port} took the whole frame')
    self.unharmed()
    self.assertLess(memory_peak_bytes(self.victim) - before, HUGE // 2)

  def test_frames_that_nobody_can_read_cost_their_link(self):
    piece = (b'\x00\x14' + bytes(20)) * 1000
    link = Plain(self.ports[0]).link
    sent = 0
    while sent < 2000 and push(link, piece):
      sent += 1
    self.assertLess(sent, 2000, 'nobody hung up')
    self.wait_log(self.victim, ' cut for endless messages')
    self.unharmed()

  def test_links_that_say_nothing(self):
    links = [connect(port) for port in self.ports for _ in range(50)]
    self.unharmed()
    for link in links:
      link.close()

  def test_a_thousand_idle_links_of_one_host_keep_nobody_out(self):
    links = []
    for _ in range(500):
      for port in self.ports:
        link = connect(port, '127.0.0.2')
        push(link, greeting() + ready())
        links.append(link)
    self.wait_log(self.victim, ' turned away: ')
    newcomer = self.joiner('newcomer', self.victim.address())
    self.joined(newcomer, 'fetched')
    self.wait(lambda: newcomer.done() >= 3, 'exchanges of the newcomer')
    self.wait(lambda: self.victim.last('status')['links']['open'] < 100, 'the links above the bound to be closed')
    self.agents.append(newcomer)
    self.unharmed()
    for link in links:
      link.close()


if __name__ == '__main__':
  swarm.main()
