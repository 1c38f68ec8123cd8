"""One registry serves several swarms with tickets behind one address. Members of each meet their own, and learn nothing
of the others."""

import re
import shutil

import certified
import swarm
from certified import KEY, SOON


class Registries(certified.Case):
  def first_of(self, name, trust):
    path = self.quadratic(f'{name}.yaml')
    path.write_text(
      path.read_text().replace('swarm:\n', f'swarm:\n  trust: {trust}\n').replace('name: e2e', f'name: of-{name}')
    )
    agent = self.agent(name, '--config', path)
    self.joined(agent)
    return agent

  def served(self):
    """Two certified swarms and one with a shared ticket, and their registry."""
    self.port = swarm.free_port_pair()
    self.first = {name: self.first_of(name, trust) for name, trust in self.SWARMS.items()}
    flags = []
    for name, agent in self.first.items():
      flags += ['--bootstrap', self.ticket(agent, 'registry') if self.certified(name) else self.shared_ticket(agent)]
    self.start_registry(*flags)
    self.all_served()

  SWARMS = {'red': 'certified', 'blue': 'certified', 'gray': 'ticket'}

  def certified(self, name):
    return self.SWARMS[name] == 'certified'

  def shared_ticket(self, agent):
    self.wait((agent.state / 'ticket').exists, 'the ticket')
    return (agent.state / 'ticket').read_text().strip()

  def start_registry(self, *flags):
    log = self.folder / 'registry/log'
    self.told_before = len(log.read_text()) if log.exists() else 0
    self.registry_process = self.registry('registry', self.port, *flags)

  def told(self):
    """By the process that runs now."""
    return self.registry_process.log()[self.told_before :]

  def all_served(self, names=SWARMS):
    for name in names:
      self.wait(lambda name=name: f"serves swarm 'of-{name}'" in self.told(), f'the registry to serve {name}')

  def swarm_id(self, name):
    return re.search(rf"swarm 'of-{name}' \(id (\w+)\)", self.registry_process.log()).group(1)

  def ticket_via(self, name, newcomer):
    """By which it joins through the registry."""
    if self.certified(name):
      return self.ticket(self.first[name], newcomer, '--via', f'{self.id_of("registry")}@127.0.0.1:{self.port}')
    folders = (self.folder / 'registry/state/swarms').glob('*/swarm.key')
    return (next(folders).parent / 'ticket').read_text().strip()

  def joins(self, name, newcomer):
    agent = self.joiner(newcomer, self.ticket_via(name, newcomer))
    self.joined(agent, 'fetched')
    return agent

  def meets_its_own(self, name, agents):
    """And nobody else, by what each of them, the registry's answers and its files say."""
    self.trained(agents)
    strangers = [agent for other, agent in self.first.items() if other != name]
    at = f'127.0.0.1:{self.port}' if self.certified(name) else self.ticket_via(name, agents[-1].name)
    said = self.command('status', at, '--once', '--json', '--state', agents[-1].state)
    for agent in agents:
      self.assertIn(agent.peer()[:8], said)
      self.wait(lambda agent=agent: agent.last('status')['peers'] == len(agents) - 1, 'its own to be counted')
    heard = said + ''.join(agent.log() + (agent.state / 'members').read_text() for agent in agents)
    for stranger in strangers:
      for word in (stranger.peer()[:8], stranger.address(), f'of-{stranger.name}', self.swarm_id(stranger.name)):
        self.assertNotIn(word, heard)

  def test_members_meet_their_own_also_after_a_restart(self):
    self.served()
    second = {name: self.joins(name, f'{name}-2') for name in self.SWARMS}
    for name, agent in second.items():
      self.meets_its_own(name, [self.first[name], agent])

    # A ticket of one swarm, and another one's name or settings.
    ids = {name: self.swarm_id(name) for name in self.SWARMS}
    wrong = {
      'names-blue': (['--swarm', ids['blue']], 'this registry serves these swarms'),
      'settings-of-blue': (['--config', self.folder / 'blue.yaml'], 'cannot use the settings'),
    }
    for name, (flags, reason) in wrong.items():
      newcomer = self.joiner(name, self.ticket_via('red', name), *flags)
      self.wait_log(newcomer, reason, seconds=SOON)
      for other in 'blue', 'gray':
        self.assertNotIn(self.first[other].peer()[:8], newcomer.log())
      self.assertIsNone(newcomer.last('joined'))
      newcomer.kill()
    other = self.first_of('other', 'ticket')
    key = self.shared_ticket(other).split('#')[1]
    newcomer = self.joiner('unknown', f'127.0.0.1:{self.port}#{key}')
    self.wait_log(newcomer, f'does not open 127.0.0.1:{self.port}', seconds=SOON)
    newcomer.kill()
    other.kill()
    for name, agent in second.items():
      self.meets_its_own(name, [self.first[name], agent])

    # Without the tickets.
    self.assertNotRegex(self.registry_process.log(), KEY)
    self.registry_process.kill()
    self.start_registry()
    self.all_served()
    for name, agent in second.items():
      self.meets_its_own(name, [self.first[name], agent, self.joins(name, f'{name}-3')])
    self.assertEqual(self.interrupt(self.registry_process)[0], 0)
    self.assertIn('SIGINT: this registry tells its members and ends', self.registry_process.log())

  def test_a_copy_ends_in_all_swarms(self):
    """Also where it finds the registry in one of them alone."""
    self.served()
    state, port = self.folder / 'copy/state', swarm.free_port_pair()
    shutil.copytree(self.registry_process.state, state)
    for address in (state / 'swarms').glob('*/address'):
      address.unlink()
    flags = [flag for name in self.SWARMS for flag in ('--bootstrap', self.ticket_for_copy(name))]
    copy = self.registry('copy', port, *flags)
    self.assertEqual(self.wait_end(copy), 1, copy.log())
    self.assertIn(f'this identity is in use at 127.0.0.1:{self.port}', copy.log())
    for name in self.SWARMS:
      self.joins(name, f'{name}-new')

  def test_copies_in_one_swarm_after_the_other(self):
    """It takes its place back in each of them, however short ago it did so in another."""
    self.served()
    for lives, name in enumerate(('red', 'blue'), start=1):
      state = self.folder / f'copy-{name}/state'
      state.mkdir(parents=True)
      shutil.copy(self.registry_process.state / 'identity.key', state)
      copy = self.registry(f'copy-{name}', swarm.free_port_pair(), '--bootstrap', self.ticket_for_copy(name))
      self.assertEqual(self.wait_end(copy), 1, copy.log())
      self.wait(lambda n=lives: self.told().count('starts again') == n, 'the place to be taken back', seconds=SOON)
      self.joins(name, f'{name}-new')

  def ticket_for_copy(self, name):
    agent = self.first[name]
    return self.ticket(agent, 'registry') if self.certified(name) else self.shared_ticket(agent)

  def test_one_swarm_removes_it(self):
    self.served()
    self.command('revoke', self.id_of('registry'), '--state', self.first['red'].state)
    folder = self.folder / 'registry/state'
    remedy = f'move {folder}/ticket elsewhere'
    self.wait_log(self.registry_process, f'{folder} is not served', 'is revoked: the holder', remedy, seconds=SOON)
    other = self.registry('other', swarm.free_port_pair(), '--state', folder)
    self.assertEqual(self.wait_end(other), 1)
    self.assertIn('another agent or registry is using it', other.log())
    refused = self.joiner('red-2', self.ticket_via('red', 'red-2'))
    self.wait_log(refused, 'the ticket does not open', seconds=SOON)
    self.assertIsNone(refused.last('joined'))
    refused.kill()
    for name in 'blue', 'gray':
      self.meets_its_own(name, [self.first[name], self.joins(name, f'{name}-2')])
    self.registry_process.kill()
    self.start_registry()
    self.wait_log(self.registry_process, 'is not served: this agent', seconds=SOON)
    self.all_served(('blue', 'gray'))
    for name in 'blue', 'gray':
      self.joins(name, f'{name}-3')
    self.assertNotIn('of-red', self.told())

  def test_tickets_that_do_not_go_together(self):
    red, blue = self.first_of('red', 'ticket'), self.first_of('blue', 'ticket')
    both = f'{self.shared_ticket(red)},{self.shared_ticket(blue)}'
    agent = self.joiner('agent', both)
    self.assertEqual(self.wait_end(agent), 1)
    self.assertIn('an agent is in one', agent.log())
    registry = self.registry('registry', swarm.free_port_pair(), '--bootstrap', both, '--swarm', '0123456789abcdef')
    self.assertEqual(self.wait_end(registry), 1)
    self.assertIn('--swarm names one swarm', registry.log())
    for process in agent, registry:
      self.assertNotRegex(process.log(), KEY)


if __name__ == '__main__':
  swarm.main()
