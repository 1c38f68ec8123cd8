"""The registry is needed by nobody who is in: it dies, agents go on and take in newcomers; it returns with an empty
memory and takes in newcomers again."""
import shutil

import swarm


class Bootstrap(swarm.Case):
  def test_dies_and_returns_empty(self):
    port, agents = self.swarm(3, self.quadratic())
    self.bootstrap.kill()
    steps = [agent.steps() for agent in agents]
    done = [agent.done() for agent in agents]
    self.wait(lambda: all(agent.steps() > before + 100 for agent, before in zip(agents, steps)),
              'steps without the registry')
    self.wait(lambda: all(agent.done() > before + 10 for agent, before in zip(agents, done)),
              'exchanges without the registry')

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

  def test_is_missing_at_the_start(self):
    port = swarm.free_port_pair()
    first = self.agent('a', '--config', self.quadratic(), '--bootstrap', f'127.0.0.1:{port}')
    self.joined(first, 'genesis')
    self.wait_log(first, f'127.0.0.1:{port}')
    self.wait(lambda: first.steps() >= 300, 'steps without the registry')   # so many that its record tells of them
    self.registry('bootstrap', port)
    second = self.joiner('b', f'127.0.0.1:{port}')
    self.joined(second, 'fetched')
    self.wait(lambda: first.done() >= 3 and second.done() >= 3, 'exchanges between the two')


if __name__ == '__main__':
  swarm.main()
