"""Machines for end-to-end tests: network namespaces on one switch, with addresses, routes and a hosts file each.
The test runs within namespaces of its own, so nothing outlives it. `run()` ends a test file; where namespaces
are not permitted the cases are skipped."""

import os
import subprocess
import sys

import swarm

INSIDE = 'STARLING_MACHINES_INSIDE'
UNSHARE = ['unshare', '--user', '--map-root-user', '--mount', '--net']
HOSTS = '127.0.0.1 localhost\n::1 localhost\n'
# Within a machine: its hosts file, then the program.
ON_MACHINE = 'mount --bind "$0" /etc/hosts && exec "$@"'


def ip(*words):
  subprocess.run(['ip', *[str(word) for word in words]], check=True, capture_output=True)


class Case(swarm.Case):
  def setUp(self):
    super().setUp()
    if os.environ.get(INSIDE) != '1':
      self.skipTest('no network namespaces here: ' + os.environ.get(INSIDE, 'not tried'))
    self.machines = []
    ip('link', 'add', 'switch', 'type', 'bridge')
    ip('link', 'set', 'switch', 'up')

  def tearDown(self):
    super().tearDown()
    if os.environ.get(INSIDE) == '1':
      for name in self.machines:
        ip('link', 'del', f'to-{name}')  # the end of a namespace takes its time
        ip('netns', 'del', name)
      ip('link', 'del', 'switch')

  def at(self, machine, *words):
    """`ip` on a machine."""
    ip('-n', machine, *words)

  def machine(self, name, *addresses, hosts=''):
    """Each address as 10.0.0.1/24 or fd00::1/64. Its interface is eth0; the switch's end of the cable is to-NAME."""
    ip('netns', 'add', name)
    self.machines.append(name)
    (self.folder / f'hosts-{name}').write_text(HOSTS + hosts)
    ip('link', 'add', f'to-{name}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    ip('link', 'set', f'to-{name}', 'master', 'switch', 'up')
    self.at(name, 'link', 'set', 'lo', 'up')
    self.at(name, 'link', 'set', 'eth0', 'up')
    for address in addresses:
      self.address(name, address)

  def address(self, machine, address, device='eth0'):
    self.at(machine, 'addr', 'add', address, 'dev', device, *(['nodad'] if ':' in address else []))

  def start_on(self, machine, name, *arguments, **options):
    """A subcommand of the program, with a folder of its name for its log."""
    hosts = self.folder / f'hosts-{machine}'
    words = ['netns', 'exec', machine, 'unshare', '--mount', 'bash', '-c', ON_MACHINE, hosts, swarm.PROGRAM]
    process = swarm.Process(self.folder / name, [*words, *arguments], program='ip', **options)
    self.processes.append(process)
    return process

  def agent_on(self, machine, name, *arguments, state=None, **options):
    folder = self.folder / name
    fixed = ['agent', '--name', name, '--state', state or folder / 'state', '--metrics', folder / 'metrics.jsonl']
    return self.start_on(machine, name, *fixed, '--set', 'agent.metrics_every=0s', *arguments, **options)

  def way_to(self, agent, at=None):
    """What others join by, at another address if named; with the ticket where the swarm has them."""
    self.wait_log(agent, 'join with')
    ticket = agent.state / 'ticket'
    own, mark, key = (ticket.read_text().strip() if ticket.exists() else agent.address()).partition('#')
    return (at or own) + mark + key

  def exchanges_go_on(self, *agents, seconds=swarm.PATIENCE):
    """Ten more exchanges of each."""
    before = [agent.done() for agent in agents]
    self.wait(
      lambda: all(agent.done() >= done + 10 for agent, done in zip(agents, before)),
      'exchanges of ' + ', '.join(agent.name for agent in agents),
      seconds,
    )


def run():
  if INSIDE not in os.environ:
    setup = 'mount -t tmpfs tmpfs /run && ip link set lo up && ip netns add probe && ip netns del probe'
    probe = subprocess.run([*UNSHARE, 'sh', '-c', setup], capture_output=True, text=True)
    os.environ[INSIDE] = '1' if probe.returncode == 0 else probe.stderr.strip().replace('\n', '; ') or 'refused'
    if probe.returncode == 0:
      inner = 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$@"'
      os.execvp(UNSHARE[0], [*UNSHARE, 'sh', '-c', inner, 'sh', sys.executable, *sys.argv])
  swarm.main()
