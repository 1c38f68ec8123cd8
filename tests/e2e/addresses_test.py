"""Which address of its machine an agent tells others, what happens when that changes, names with several addresses, and
what is said of paths that do not carry everything. Each agent runs on a machine of its own (machines.py)."""

import contextlib
import itertools
import socket
import subprocess
import sys
import threading

import machines
import swarm

PORT = 7400
BACK_S = 30  # of exchanges after a change
HOLD_TUNNEL = """
import fcntl, os, struct, sys
device = os.open('/dev/net/tun', os.O_RDWR)
TUNSETIFF, NO_PACKET_INFORMATION = 0x400454CA, 0x1000
fcntl.ioctl(device, TUNSETIFF, struct.pack('16sH22x', sys.argv[1].encode(), int(sys.argv[2]) | NO_PACKET_INFORMATION))
print('there', flush=True)
sys.stdin.read()
"""


class OwnAddress(machines.Case):
  def endpoint(self, agent):
    self.wait(lambda: agent.last('start'), f'{agent.name} to start')
    return agent.address()

  def pair(self, first, other, *extra):
    """A swarm of two machines; the second one begins where the first one says."""
    a = self.agent_on(first, 'a', '--config', self.quadratic(), '--listen', f'[::]:{PORT}', *extra)
    address = self.way_to(a)
    b = self.agent_on(other, 'b', '--bootstrap', address, '--listen', f'0.0.0.0:{PORT}')
    self.exchanges_go_on(a, b)
    return a, b

  def test_the_default_route_wins_over_a_bridge(self):
    self.machine('one')
    self.at('one', 'link', 'add', 'docker0', 'type', 'bridge')
    self.at('one', 'link', 'set', 'docker0', 'up')
    self.address('one', '172.17.0.1/16', 'docker0')
    self.address('one', '10.77.0.1/24')
    self.at('one', 'route', 'add', 'default', 'via', '10.77.0.254')
    self.machine('two', '10.77.0.2/24')
    a, b = self.pair('one', 'two', '--bootstrap', 'localhost:7390')
    self.assertEqual(a.address(), f'10.77.0.1:{PORT}', self.logs())
    self.assertEqual(b.address(), f'10.77.0.2:{PORT}', self.logs())

  def test_an_interface_wins_over_a_bridge_without_any_route(self):
    self.machine('one')
    self.at('one', 'link', 'add', 'virbr0', 'type', 'bridge')
    self.at('one', 'link', 'set', 'virbr0', 'up')
    self.address('one', '192.168.122.1/24', 'virbr0')
    self.address('one', '169.254.7.7/16')
    self.address('one', '10.77.0.1/24')
    a = self.agent_on('one', 'a', '--config', self.quadratic(), '--bootstrap', '127.0.0.1:7390')
    self.assertEqual(self.endpoint(a), f'10.77.0.1:{PORT}', self.logs())

  def test_an_interface_wins_over_tunnels(self):
    """One of each kind, with IPv4 and a process behind it; the interface has IPv6 alone."""
    for kind, mode in (('tun', 1), ('tap', 2)):
      name = f'one-{kind}'
      self.machine(name, 'fd77::1/64')
      holder = subprocess.Popen(
        ['ip', 'netns', 'exec', name, sys.executable, '-c', HOLD_TUNNEL, 'vpn0', str(mode)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
      )  # fmt: skip
      self.addCleanup(holder.communicate)
      if holder.stdout.readline() != 'there\n':
        self.skipTest('may not make a tunnel here')
      self.address(name, '10.8.0.1/24', 'vpn0')
      self.at(name, 'link', 'set', 'vpn0', 'up')
      a = self.agent_on(name, kind, '--config', self.quadratic(), '--listen', f'[::]:{PORT}')
      self.assertEqual(self.endpoint(a), f'[fd77::1]:{PORT}', self.logs())
      holder.communicate()

  def test_a_host_name_of_loopback(self):
    self.machine('one', '10.77.0.1/24', hosts='127.0.1.1 one\n')
    self.machine('two', '10.77.0.2/24', hosts='127.0.1.1 two\n10.77.0.1 one\n')
    self.start_on('one', 'registry', 'bootstrap', '--listen', '0.0.0.0:7400', '--state', self.folder / 'reg')
    a = self.agent_on('one', 'a', '--config', self.quadratic(), '--bootstrap', 'one:7400', '--listen', '0.0.0.0:7410')
    b = self.agent_on('two', 'b', '--bootstrap', 'one:7400', '--listen', '0.0.0.0:7410')
    self.exchanges_go_on(a, b)
    self.assertEqual(a.address(), '10.77.0.1:7410', self.logs())

  def test_machines_without_ipv4(self):
    self.machine('one', 'fd77::1/64')
    self.machine('two', 'fd77::2/64')
    a, b = self.pair('one', 'two')
    self.assertEqual(a.address(), f'[fd77::1]:{PORT}', self.logs())
    self.assertNotIn('127.0.0.1', a.log() + b.log(), 'no line names an address that there is not')

  def test_an_agent_that_names_itself_loopback_is_told_and_named(self):
    self.machine('one', '10.77.0.1/24')
    self.machine('two', '10.77.0.2/24')
    a = self.agent_on('one', 'a', '--config', self.quadratic())
    b = self.agent_on(
      'two', 'b', '--bootstrap', self.way_to(a, f'10.77.0.1:{PORT}'), '--advertise', f'127.0.0.1:{PORT}'
    )
    self.wait_log(a, f'agent b at 10.77.0.2 names itself 127.0.0.1:{PORT}', f'--advertise 10.77.0.2:{PORT}')
    self.wait_log(b, 'where only this machine reaches it', f'agent b at 10.77.0.2 names itself 127.0.0.1:{PORT}')


class ChangedAddress(machines.Case):
  def three(self, *addresses):
    for name, address in zip(('one', 'two', 'three'), addresses):
      self.machine(name, address)
    listen = f'[::]:{PORT}'
    a = self.agent_on('one', 'a', '--config', self.quadratic(), '--listen', listen)
    address = self.way_to(a)
    others = [
      self.agent_on(machine, name, '--bootstrap', address, '--listen', listen)
      for machine, name in (('two', 'b'), ('three', 'c'))
    ]
    self.exchanges_go_on(a, *others)
    return a, *others

  def change(self, machine, address):
    self.at(machine, 'addr', 'flush', 'dev', 'eth0', 'scope', 'global')
    swarm.pause(3)  # as a network that is lost and found
    self.address(machine, address)

  def test_of_the_agent_that_all_others_joined_by(self):
    a, b, c = self.three('10.77.0.1/24', '10.77.0.2/24', '10.77.0.3/24')
    self.change('one', '10.77.0.11/24')
    self.wait_log(a, f'others reach this agent at 10.77.0.11:{PORT} from now on')
    self.exchanges_go_on(a, b, c, seconds=BACK_S)
    status = self.start_on('one', 'look', 'status', '--state', a.state, '--once')
    self.assertEqual(self.wait_end(status), 0, self.logs())

  def test_of_all_but_one_of_another_family(self):
    a, b, c = self.three('fd77::1/64', 'fd77::2/64', 'fd77::3/64')
    self.change('two', 'fd77::22/64')
    self.change('three', 'fd77::33/64')
    self.exchanges_go_on(a, b, c, seconds=BACK_S)
    self.assertIn(f'[fd77::22]:{PORT}', b.log())


class Names(machines.Case):
  def joins_by(self, hosts, *addresses_of_two):
    self.machine('one', '10.77.0.1/24')
    self.machine('two', *addresses_of_two, hosts=hosts)
    a = self.agent_on('one', 'a', '--config', self.quadratic())
    b = self.agent_on('two', 'b', '--bootstrap', self.way_to(a, f'seed.test:{PORT}'))
    self.exchanges_go_on(a, b)
    self.assertEqual(b.address(), f'10.77.0.2:{PORT}', 'of the family that answers' + self.logs())

  def test_whose_first_address_refuses(self):
    self.machine('three', '10.77.0.3/24')
    self.joins_by('10.77.0.3 seed.test\n10.77.0.9 seed.test\n10.77.0.1 seed.test\n', '10.77.0.2/24')

  def test_whose_first_family_leads_nowhere(self):
    self.joins_by('fd77::9 seed.test\n10.77.0.1 seed.test\n', '10.77.0.2/24', 'fd77::2/64')

  def test_what_each_number_answers_is_said(self):
    self.machine('two', '10.77.0.2/24', hosts='10.77.0.2 seed.test\n10.99.0.1 seed.test\n')
    b = self.agent_on('two', 'b', '--bootstrap', f'seed.test:{PORT}', '--listen', '0.0.0.0:7410')
    self.wait_log(b, f'10.77.0.2: refused, as nobody listens at port {PORT}', '10.99.0.1: network is unreachable')
    self.assertNotIn('no name server', b.log().splitlines()[-1])


class Paths(machines.Case):
  def without_offload(self, *names):
    for name in names:
      self.at(name, 'link', 'set', 'eth0', 'gso_max_segs', '1')

  def test_a_joiner_behind_an_mtu_hole_names_it(self):
    self.machine('one', '10.77.0.1/24')
    self.machine('two', '10.77.0.2/24')
    self.without_offload('one', 'two')
    machines.ip('link', 'set', 'to-two', 'mtu', '1280')
    a = self.agent_on('one', 'a', '--config', self.quadratic())
    b = self.agent_on('two', 'b', '--bootstrap', self.way_to(a, f'10.77.0.1:{PORT}'))
    self.wait_log(b, 'MTU', 'tcp_mtu_probing')
    self.wait_log(a, 'MTU', '10.77.0.2')

  def test_a_hole_that_opens_in_mid_run_is_named(self):
    self.machine('one', 'fd77::1/64')
    self.machine('two', 'fd77::2/64')
    self.without_offload('one', 'two')
    a = self.agent_on('one', 'a', '--config', self.quadratic(dimension=100000))
    b = self.agent_on('two', 'b', '--bootstrap', self.way_to(a, f'[fd77::1]:{PORT}'))
    self.exchanges_go_on(a, b)
    machines.ip('link', 'set', 'to-two', 'mtu', '1300')
    self.wait(lambda: 'MTU' in a.log() or 'MTU' in b.log(), 'the hole to be named')

  def test_a_link_that_is_cut_for_a_while_is_no_hole(self):
    self.machine('one', '10.77.0.1/24')
    self.machine('two', '10.77.0.2/24')
    a = self.agent_on('one', 'a', '--config', self.quadratic(dimension=100000))
    b = self.agent_on('two', 'b', '--bootstrap', self.way_to(a, f'10.77.0.1:{PORT}'))
    self.exchanges_go_on(a, b)
    machines.ip('link', 'set', 'to-two', 'down')
    self.wait_log(a, ' is gone')
    machines.ip('link', 'set', 'to-two', 'up')
    self.exchanges_go_on(a, b)
    self.assertNotIn('MTU', a.log() + b.log())

  def test_an_agent_that_cannot_be_reached_back_is_named_at_both(self):
    self.machine('one', '10.77.0.1/24')
    self.machine('two', '10.77.0.2/24')
    a = self.agent_on('one', 'a', '--config', self.quadratic())
    b = self.agent_on('two', 'b', '--bootstrap', self.way_to(a, f'10.77.0.1:{PORT}'), '--advertise', '10.77.0.99:7400')
    self.wait_log(a, 'agent b asks to join from 10.77.0.2', '10.77.0.99:7400')
    self.wait_log(b, f'10.77.0.1:{PORT} takes connections', 'they go to 10.77.0.99:7400')

  def test_two_members_that_only_a_third_reaches_name_each_other(self):
    self.machine('one', '10.77.0.1/24')
    self.machine('two', '10.77.0.2/24')
    self.machine('three', '10.77.0.3/24')
    self.at('one', 'route', 'add', 'prohibit', '10.77.0.2/32')
    self.at('two', 'route', 'add', 'prohibit', '10.77.0.1/32')
    c = self.agent_on('three', 'c', '--config', self.quadratic())
    a = self.agent_on('one', 'a', '--bootstrap', self.way_to(c))
    b = self.agent_on('two', 'b', '--bootstrap', self.way_to(c))
    self.exchanges_go_on(a, b, c)
    for here, there, own in ((a, 2, 1), (b, 1, 2)):
      name = 'b' if here is a else 'a'
      self.wait_log(here, f'agent {name} cannot be reached at 10.77.0.{there}:{PORT}', f'at 10.77.0.{own}:{PORT}')


class DroppedConnections(swarm.Case):
  """The way to one of two agents leads through a relay of TCP connections; every second one is dropped."""

  def setUp(self):
    super().setUp()
    self.accepted = itertools.count(1)
    self.relayed = swarm.free_port_pair()
    self.listeners = [self.listener(self.relayed + i) for i in range(2)]
    self.behind = swarm.free_port_pair()

  def listener(self, port):
    made = socket.create_server(('127.0.0.1', port))
    self.addCleanup(made.close)
    return made

  def relay(self, listener, port, swallows):
    """Each connection to `listener` leads to `port`; a dropped one carries nothing, or ends after a moment."""

    def copy(source, target):
      with contextlib.suppress(OSError):
        while data := source.recv(65536):
          target.sendall(data)
      shut(source)
      shut(target)

    def shut(end):
      with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)

    with contextlib.suppress(OSError):
      while True:
        here, _ = listener.accept()
        self.addCleanup(here.close)
        dropped = next(self.accepted) % 2 == 0
        if dropped and swallows:
          continue
        there = socket.create_connection(('127.0.0.1', port))
        self.addCleanup(there.close)
        for ends in ((here, there), (there, here)):
          threading.Thread(target=copy, args=ends, daemon=True).start()
        if dropped:
          threading.Timer(0.3, shut, (here,)).start()

  def exchanges_in_spite_of(self, swallows):
    listen = ('--listen', f'127.0.0.1:{self.behind}', '--advertise', f'127.0.0.1:{self.relayed}')
    a = self.agent('a', '--config', self.quadratic(), *listen)
    self.wait_log(a, 'join with')
    for i, listener in enumerate(self.listeners):
      threading.Thread(target=self.relay, args=(listener, self.behind + i, swallows), daemon=True).start()
    others = [self.joiner(name, f'127.0.0.1:{self.relayed}') for name in 'bcd']
    self.wait(lambda: all(agent.done() >= 20 for agent in (a, *others)), 'exchanges of all')
    self.assertGreater(next(self.accepted), 6, 'hardly anything went through the relay')

  def test_that_end_after_a_moment(self):
    self.exchanges_in_spite_of(swallows=False)

  def test_that_carry_nothing(self):
    self.exchanges_in_spite_of(swallows=True)


if __name__ == '__main__':
  machines.run()
