"""The registry is needed by nobody who is in: it dies, agents go on and take in newcomers; it returns with an empty
memory and takes in newcomers again."""

import re
import shutil
import socket
import time

import swarm


class Bootstrap(swarm.Case):
  def test_dies_and_returns_empty(self):
    port, agents = self.swarm(3, self.quadratic())
    self.bootstrap.kill()
    steps = [agent.steps() for agent in agents]
    done = [agent.done() for agent in agents]
    self.wait(
      lambda: all(agent.steps() > before + 100 for agent, before in zip(agents, steps)), 'steps without the registry'
    )
    self.wait(
      lambda: all(agent.done() > before + 10 for agent, before in zip(agents, done)), 'exchanges without the registry'
    )

    through_agent = self.joiner('d', agents[0].address())
    self.assertGreater(self.joined(through_agent, 'fetched')['steps'], 0)
    self.wait(lambda: through_agent.done() >= 3, 'exchanges of the agent that joined through another')

    shutil.rmtree(self.bootstrap.state)
    self.registry('bootstrap', port)
    through_registry = self.joiner('e', f'127.0.0.1:{port}')
    self.assertGreater(self.joined(through_registry, 'fetched')['steps'], 0)
    self.wait(lambda: through_registry.done() >= 3, 'exchanges of the agent that joined through the new registry')
    self.wait(lambda: (through_registry.last('status') or {}).get('peers', 0) >= 4, 'the newcomer to see everybody')
    self.assert_all_run(agents + [through_agent])

  def test_is_added_to_a_swarm_that_trains(self):
    first = self.agent('first', '--config', self.quadratic())
    self.joined(first)
    port = swarm.free_port_pair()
    registry = self.registry('registry', port, '--bootstrap', first.address())
    self.wait_log(registry, "serves swarm 'e2e'")
    joiner = self.joiner('joiner', f'127.0.0.1:{port}')
    self.joined(joiner, 'fetched')
    self.wait(lambda: joiner.done() >= 3, 'exchanges')

  def test_is_missing_at_the_start(self):
    port = swarm.free_port_pair()
    first = self.agent('a', '--config', self.quadratic(), '--bootstrap', f'127.0.0.1:{port}')
    self.joined(first, 'genesis')
    self.wait_log(first, f'127.0.0.1:{port}')
    self.wait(lambda: first.steps() >= 300, 'steps without the registry')  # so many that its record tells of them
    self.registry('bootstrap', port)
    second = self.joiner('b', f'127.0.0.1:{port}')
    self.joined(second, 'fetched')
    self.wait(lambda: first.done() >= 3 and second.done() >= 3, 'exchanges between the two')


class PowerCut(swarm.Case):
  AGENTS = 8

  def test_all_that_restart_at_once_know_each_other_in_seconds(self):
    config = self.quadratic()
    port, agents = self.swarm(self.AGENTS, config)
    self.wait(lambda: all(agent.last('checkpoint') for agent in agents), 'checkpoints')
    for agent in agents:
      agent.kill()
    killed = time.time()
    again = [self.agent(agent.name, '--config', config, '--bootstrap', f'127.0.0.1:{port}') for agent in agents]

    def knows_all(agent):
      return agent.events('status')[-1]['t'] > killed and agent.last('status')['peers'] == self.AGENTS - 1

    self.wait(lambda: all(knows_all(agent) for agent in again), 'all to know all')

    def knows_all_since(agent):  # by its own clock; who was told of the process before hears of a restart
      met = {
        event['name']: event['t']
        for event in agent.events('member')
        if event['t'] > agent.last('start')['t'] and event['change'] in ('joined', 'restarted')
      }
      return max(met[other.name] for other in again if other is not agent)

    took = max(map(knows_all_since, again)) - max(agent.last('start')['t'] for agent in again)
    print(f'# {self.AGENTS} agents know each other {took:.2f} s after the last of them has started again')
    self.assertLess(took, 4)  # a busy machine starts them late, which does not count
    for agent in again:
      self.assertEqual(agent.last('joined')['how'], 'resumed')
    done = [agent.done() for agent in again]
    self.wait(lambda: all(agent.done() > before for agent, before in zip(again, done)), 'exchanges of all')
    self.assert_all_run(again)


class PrintedCommand(swarm.Case):
  """What an agent and a registry print for others is run as it stands."""

  def command_of(self, process):
    self.wait_log(process, 'join with: ')
    words = re.search(r'join with: starling (agent .*? FOLDER)', process.log()).group(1).split()
    data = self.folder / 'data'
    data.mkdir(exist_ok=True)
    (data / 'train.txt').write_text('a text')
    return [str(data) if word == 'FOLDER' else word for word in words[1:]]

  def run_on(self, host):
    with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET) as probe:
      try:
        probe.bind((host.strip('[]'), 0))
      except OSError:
        self.skipTest(f'this machine has no {host}')
    listen = ['--listen', f'{host}:0']
    registry = self.start('registry', 'bootstrap', *listen, '--state', self.folder / 'registry' / 'state')
    at_registry = self.command_of(registry)
    first = self.agent('first', '--config', self.quadratic(), *listen, *at_registry[:2])
    self.joined(first, 'genesis')
    self.assertIn(f'FOLDER --listen {host}:0 --state NEW_FOLDER', first.log())  # both are taken on this machine
    for name, command in ('through_agent', self.command_of(first)), ('through_registry', at_registry):
      newcomer = self.agent(name, *command, *listen)
      self.joined(newcomer)
      self.assertIn(host, newcomer.address())
      self.wait(lambda: newcomer.done() >= 3, 'exchanges')

  def test_by_ipv4(self):
    self.run_on('127.0.0.1')

  def test_by_ipv6(self):
    self.run_on('[::1]')


if __name__ == '__main__':
  swarm.main()
