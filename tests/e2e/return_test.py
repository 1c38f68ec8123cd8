"""A power cut: all members and the registry die at once, and the members return in another order, with pauses, to no
registry. They end with one model, no worse than before."""

import random

import swarm

NOISE = 0.03  # of an accuracy: the test digits of one evaluation, and where in a round it falls

# Digits divided by label: a member alone forgets most classes within a few dozen steps.
DIGITS = """
swarm:
  name: power-cut
  rng_seed: 1
  model: {kind: mlp, input: [1, 28, 28], classes: 10, hidden: [32]}
  optimizer: {kind: sgd, learning_rate: 0.02, momentum: 0.9, warmup: 60}
  batch: 32
  local_steps: 1
  exchange: {kind: pairwise, codec: modulo8, share: [params, momentum], overlap: off, deadline_min: 20ms,
             deadline_max: 1s}
  membership: {probe_interval: 250ms, probe_timeout: 150ms, suspicion: 3}
  stop_after: %(stop_after)d
  wait_for: %(agents)d
agent:
  threads: 1
  checkpoint: {every: 1s, keep: 3}
  evaluate_every: 500ms
  data: {path: generated, sharding: labels}
"""


class PowerCut(swarm.Case):
  def life(self, number):
    """Member number of the test, begun or begun again."""
    return self.agent(
      chr(ord('a') + number), '--config', self.config, '--listen', self.places[number],
      '--bootstrap', f'127.0.0.1:{self.port}', '--shard', f'{number + 1}/{len(self.places)}',
    )  # fmt: skip

  def accuracy(self, agent, since=0):
    """The last two evaluations of this life, averaged; 0: there are not so many."""
    last = [event['accuracy'] for event in agent.events()[since:] if event['event'] == 'evaluate'][-2:]
    return sum(last) / 2 if len(last) == 2 else 0

  def cut_and_return(self, count, order, pauses, stop_after=900):
    self.config = self.folder / 'swarm.yaml'
    self.config.write_text(DIGITS % {'stop_after': stop_after, 'agents': count})
    self.port = swarm.free_port_pair()
    registry = self.registry('registry', self.port)
    self.places = [f'127.0.0.{number + 2}:{self.port}' for number in range(count)]
    agents = [self.life(number) for number in range(count)]
    for agent in agents:
      self.wait(lambda agent=agent: self.accuracy(agent) > 0.8, f'{agent.name} to learn the digits of all')
      self.wait(lambda agent=agent: len(self.known(agent)) == count - 1, f'{agent.name} to write down the others')
    for process in [*agents, registry]:
      process.kill()
    before = min(self.accuracy(agent) for agent in agents)

    lengths = [len(agent.events()) for agent in agents]
    saved = [agent.last('checkpoint')['steps'] for agent in agents]
    returned = {}
    for place, number in enumerate(order):
      swarm.pause(pauses[place])
      returned[number] = self.life(number)
      if place < count // 2:  # no majority yet
        self.wait_log(returned[number], f'of {count - 1} members')
        swarm.pause(1)
        for early in returned:
          begun = [event for event in returned[early].events()[lengths[early] :] if event['event'] == 'joined']
          self.assertEqual(begun, [], f'{returned[early].name} waits' + self.logs())
    for number, agent in returned.items():
      self.assertEqual(self.wait_end(agent, 150), 0, self.logs())
      life = agent.events()[lengths[number] :]
      joined = next(event for event in life if event['event'] == 'joined')
      self.assertGreater(joined['peers'], 0, f'{agent.name} is not alone' + self.logs())
      self.assertGreaterEqual(joined['steps'], saved[number])
      finish = next(event for event in life if event['event'] == 'finish')
      self.assertTrue(finish['settled'], self.logs())
      self.assertGreaterEqual(finish['accuracy'], before - NOISE, self.logs())
    self.assert_one_model(agents)

  def known(self, agent):
    path = agent.state / 'members'
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line.startswith('127.')]

  def test_all_return_in_another_order(self):
    self.cut_and_return(3, [2, 0, 1], [1, 2, 4])

  def test_all_return_in_any_order_at_any_time(self):
    seed = random.randrange(2**32)
    drawn = random.Random(seed)
    order = list(range(4))
    drawn.shuffle(order)
    pauses = [drawn.uniform(0, 5) for _ in order]
    with self.subTest(f'seed {seed}'):
      self.cut_and_return(4, order, pauses)


if __name__ == '__main__':
  swarm.main()
