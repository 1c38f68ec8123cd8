"""Agents that send buckets of slices while backward goes on (update.merge: auto), over emulated links: one is killed in
mid-backward and comes back as a slow one. Links need root.

It is killed in one of the trials that send all slices together. The plan comes later: without a slow member buckets
promise less here than the 5 % that a plan is taken for."""

import links
import swarm
import updates_test
from links import NODES

SLICES = 32
DIMENSION = SLICES * 32768
LAYER = 65536
STEP_MS, SLOW_MS = 45, 180  # a third of it forward
DEADLINE_S, SLACK_S = 2, 1  # of a busy machine
TOGETHER = 15  # the first round of the second five trials that send all slices together
STOP_AFTER = 180  # a plan was taken after 94 to 104 rounds in each of four runs
SETTINGS = [
  'swarm.exchange.kind=group',
  'swarm.exchange.source=gradients',
  'swarm.exchange.overlap=off',
  'swarm.local_steps=1',
  'swarm.exchange.deadline_min=50ms',
  f'swarm.exchange.deadline_max={DEADLINE_S}s',
  'swarm.exchange.update.codec=topk',
  'swarm.exchange.update.density=0.001',
  'swarm.exchange.update.pipeline=on',
  'swarm.exchange.update.merge=auto',
  f'swarm.stop_after={STOP_AFTER}',
  'swarm.membership.probe_interval=2s',
  'swarm.membership.probe_timeout=1s',
]


class Merged(links.Linked, updates_test.Agreeing):
  def started(self, i, step_ms=STEP_MS):
    pace = {'STARLING_TEST_COMPUTE_MS': str(step_ms), 'STARLING_TEST_LAYERS': str(self.layers)}
    return self.member(i, self.config, SETTINGS, pace)

  def plan_of(self, agent):
    """Buckets, and the round from which they hold, as it says at its end; (0, 0): it knows of no plan."""
    updates = agent.last('finish')['updates']
    return updates['buckets'], updates['plan_since']

  def assert_rounds_go_on(self, agents, since):
    rounds = [event for agent in agents for event in agent.events('exchange') if event['t'] > since]
    self.assertLess(max(event['ms'] for event in rounds) / 1e3, 2 * DEADLINE_S + SLACK_S, self.logs())
    # Without the slices whose owner is gone or slow, which others own four rounds later.
    most = sum(event['blocks'] >= SLICES * (NODES - 1) / NODES for event in rounds)
    self.assertGreater(most, len(rounds) / 2, self.logs())
    self.assertGreater(sum(event['blocks'] == SLICES for event in rounds), 0, 'all slices again' + self.logs())

  def test_who_is_killed_in_mid_backward_and_comes_back_slow_holds_nobody_up(self):
    self.config = self.quadratic(dimension=DIMENSION)
    self.layers = self.folder / 'layers.yaml'
    rows = ''.join(f'  layer{i}: [{LAYER}, 1]\n' for i in range(DIMENSION // LAYER))
    self.layers.write_text(f'model: equal layers\nforward: 15ms\nbackward: 30ms\nlayers:\n{rows}')
    agents = [self.started(i) for i in range(NODES)]
    for agent in agents:
      self.joined(agent)
    killed, others = agents[3], agents[:3]
    self.wait(lambda: killed.steps() >= TOGETHER, 'rounds of all agents')

    # The next step begins with the end of a round, and its backward takes two thirds of it.
    rounds = len(killed.events('exchange'))
    self.wait(lambda: len(killed.events('exchange')) > rounds, 'the end of a round')
    swarm.pause(STEP_MS / 2e3)
    killed.kill()
    began = self.now(others)
    before = [agent.steps() for agent in others]
    self.wait(lambda: all(agent.steps() >= steps + 5 for agent, steps in zip(others, before)), 'rounds without it')

    slow = self.started(3, SLOW_MS)
    self.wait(lambda: len(slow.events('joined')) == 2, 'the killed one to join again')
    for agent in [*others, slow]:
      self.wait(lambda: agent.last('finish'), f'{agent.name} to finish')
      self.assertEqual(agent.last('finish')['reason'], 'stop_after', self.logs())
    self.assert_rounds_go_on(others, began)
    self.assertEqual(len({agent.last('finish')['log_heads'] for agent in [*others, slow]}), 1, self.logs())
    for agent in [*others, slow]:
      self.assertGreater(agent.last('finish')['updates']['frames_saved'], 0, 'some were sent together')
      self.assertGreater(agent.last('finish')['updates']['early'], SLICES, 'and while backward went on')
    plans = {self.plan_of(agent) for agent in [*others, slow]}
    self.assertEqual(len(plans), 1, f'{plans}' + self.logs())
    for buckets, since in plans:
      self.assertTrue(0 < buckets < SLICES and since < STOP_AFTER, f'a plan of {buckets} since {since}' + self.logs())
    again = [event for event in slow.events('exchange') if event['t'] > slow.events('joined')[1]['t']]
    self.assertGreater(sum(event['outcome'] == 'done' for event in again), 3, 'its work counts' + self.logs())
    print(
      f'# buckets and since when: {plans}; {len(again)} rounds of the slow one; longest round of the others '
      f'{max(event["ms"] for agent in others for event in agent.events("exchange") if event["t"] > began):.0f} ms'
    )


if __name__ == '__main__':
  swarm.main()
