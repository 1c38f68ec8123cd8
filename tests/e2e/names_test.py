"""A name server that never answers: who has an address in numbers goes on, nobody waits for names, and who is alone for
it says so once a minute. The agents run in namespaces of their own, in which the only name server is a socket of this
test that hears and is silent."""

import ctypes
import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading

import swarm

INSIDE = 'STARLING_NAMES_INSIDE'  # set within the namespaces
UNSHARE = ['unshare', '--user', '--map-root-user', '--mount', '--net']
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
MS_BIND = 4096
WATCHED_S = 20
GAP_MAX_S = 5  # of what comes once a second, on a busy machine; a look-up here takes 150 s
NAMES = ['seed1.example.com:7400', 'seed2.example.com:7400']


class SilentNameServer:
  def __init__(self):
    self.asked = []
    self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    self.socket.bind(('127.0.0.1', 53))
    threading.Thread(target=self.hear, daemon=True).start()

  def hear(self):
    while True:
      self.asked.append(self.socket.recv(4096))

  def heard(self, name):
    wanted = b''.join(bytes([len(part)]) + part.encode() for part in name.split('.'))
    return any(wanted in question for question in self.asked)


def take_names_away(folder):
  """Within the namespaces: loopback is up, and all names are asked of 127.0.0.1."""
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack('16sH14x', b'lo', IFF_UP))
  path = pathlib.Path(folder) / 'resolv.conf'
  path.write_text('nameserver 127.0.0.1\noptions timeout:30 attempts:5\n')
  if ctypes.CDLL(None, use_errno=True).mount(str(path).encode(), b'/etc/resolv.conf', None, MS_BIND, None) != 0:
    raise OSError(ctypes.get_errno(), 'mount')


class SilentNames(swarm.Case):
  def setUp(self):
    super().setUp()
    if INSIDE not in os.environ:
      self.skipTest('no namespaces of our own here')
    take_names_away(self.folder)
    self.server = SilentNameServer()
    probe = subprocess.Popen(['getent', 'hosts', 'probe.example.com'], stdout=subprocess.DEVNULL)
    try:
      self.wait(lambda: self.server.heard('probe.example.com') or probe.poll() is not None, 'a look-up')
    finally:
      probe.kill()
      probe.wait()
    if not self.server.heard('probe.example.com'):
      self.skipTest('names are not looked up by DNS here')

  def longest_gap(self, agent, kind, since, until, **fields):
    times = [
      event['t']
      for event in agent.events(kind)
      if since < event['t'] < until and all(event[name] == value for name, value in fields.items())
    ]
    ends = [since, *times, until]
    return max(later - earlier for earlier, later in zip(ends, ends[1:]))

  def test_a_swarm_goes_on(self):
    config, port = self.quadratic(), swarm.free_port_pair()
    seeds = [word for name in NAMES for word in ('--bootstrap', name)]
    lonely = self.agent('lonely', '--config', config, *seeds)
    first = self.agent('a', '--config', config, '--listen', f'127.0.0.1:{port}', *seeds)
    others = [self.agent(name, '--config', config, *seeds, '--bootstrap', f'127.0.0.1:{port}') for name in ('b', 'c')]
    agents = [first, *others]
    for agent in (lonely, *agents):
      self.joined(agent)
    # Its record carries a name, behind which every other agent looks for it in vain: it comes when others have a model.
    named = self.agent(
      'named', '--config', config, '--bootstrap', f'127.0.0.1:{port}', '--advertise', 'named.example.com:7400'
    )
    self.wait(lambda: named.last('start'), 'the id of the one with a name')
    self.wait(lambda: all(agent.done() >= 10 for agent in agents), 'exchanges of those who have numbers')
    self.wait(lambda: all(agent.last('member', peer=named.peer()) for agent in agents), 'the one with a name')
    began = max(agent.last('status')['t'] for agent in agents)
    swarm.pause(WATCHED_S)
    until = began + WATCHED_S
    for agent in agents:
      done = sum(began < event['t'] < until for event in agent.events('exchange') if event['outcome'] == 'done')
      gaps = [
        self.longest_gap(agent, 'exchange', began, until, outcome='done'),
        self.longest_gap(agent, 'status', began, until),
      ]
      print(
        f'# {agent.name}: {done} exchanges in {WATCHED_S} s, the longest gap {gaps[0]:.1f} s; of status {gaps[1]:.1f} s'
      )
      self.assertLess(max(gaps), GAP_MAX_S, agent.name + self.logs())
    self.assertLess(self.longest_gap(lonely, 'status', began, until), GAP_MAX_S)
    self.assertGreater(lonely.steps(), 100, 'it trains alone')
    self.wait_log(lonely, 'this agent is alone')
    self.assertEqual(lonely.log().count('this agent is alone'), 1, 'once a minute' + self.logs())
    self.assertIn('getent hosts seed1.example.com', lonely.log())
    self.assertTrue(self.server.heard('seed1.example.com'))
    self.assert_all_run([lonely, named, *agents])


if __name__ == '__main__':
  if INSIDE not in os.environ and subprocess.run([*UNSHARE, 'true'], capture_output=True).returncode == 0:
    os.environ[INSIDE] = '1'
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv])
  swarm.main()
