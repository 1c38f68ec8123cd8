"""Agents that share updates, on loopback: whoever is killed, entries go on, and all hold one model again soon. Over
links: updates_links_test.py."""

import os
import pathlib

import swarm

DEADLINE_S = 0.5  # of swarm.QUADRATIC; each of the two phases of a round
ROUND_S = 1.3  # local steps, and a round on loopback; a status a second sees every length of the log
ROUND_SLACK_S = 0.2  # a deadline is noticed a little late on a busy machine
SLACK_S = 1.0  # of steps there
AGREE_S = 10
SETTINGS = [
  'swarm.exchange.kind=group',
  'swarm.exchange.source=updates',
  'swarm.exchange.overlap=off',
  'swarm.local_steps=120',
]


class Agreeing(swarm.Case):
  def now(self, agents):
    return max(agent.events('status')[-1]['t'] for agent in agents)

  def all_agree(self, agents, since):
    """Whether each said after that moment, of a log as long as one of the first agent's, that it is the same log."""
    first, *others = [
      {
        event['updates']['entries']: event['log_heads']
        for event in agent.events('status')
        if event['t'] > since and 'log_heads' in event
      }
      for agent in agents
    ]
    return all(any(first.get(length) == heads for length, heads in log.items()) for log in others)

  def assert_entries_go_on(self, agents, since):
    """Some round may end without an entry, after two deadlines at most: then the next one's steps come before it. Who
    gave up on an entry before its owner made it takes it later, so that all of them are asked."""
    rounds = [event for agent in agents for event in agent.events('exchange') if event['t'] > since]
    self.assertLess(max(event['ms'] for event in rounds) / 1e3, 2 * DEADLINE_S + ROUND_SLACK_S, self.logs())
    times = sorted(event['t'] for event in rounds if event['blocks'] > 0)
    ends = [since, *times, self.now(agents)]
    gaps = sorted((later - earlier for earlier, later in zip(ends, ends[1:])), reverse=True)
    self.assertLess(gaps[0], 2 * (ROUND_S + DEADLINE_S) + SLACK_S, self.logs())
    self.assertLess(gaps[1], ROUND_S + DEADLINE_S + SLACK_S, 'a second round without an entry' + self.logs())

  def agree_soon(self, agents, what):
    since = self.now(agents)
    self.wait(lambda: self.all_agree(agents, since), what, AGREE_S)


class Updates(Agreeing):
  def grouped(self, count, *settings):
    flags = [word for setting in [*SETTINGS, *settings] for word in ('--set', setting)]
    return self.swarm(count, self.quadratic(), *flags)

  def test_entries_go_on_when_one_is_killed_and_it_catches_up(self):
    port, agents = self.grouped(4)
    self.agree_soon(agents, 'one log')
    killed, others = agents[3], agents[:3]
    began = self.now(agents)
    killed.kill()
    swarm.pause(8)
    self.assert_entries_go_on(others, began)
    self.agree_soon(others, 'one log of those who live')
    before = others[0].last('status')['updates']['entries']
    again = self.agent('d', '--bootstrap', f'127.0.0.1:{port}')
    self.wait(lambda: len(again.events('joined')) == 2, 'the killed one to join again')
    self.assertEqual(again.last('joined')['how'], 'resumed')
    self.agree_soon([*others, again], 'one log with the one that came back')
    self.assertGreater(again.last('status')['updates']['entries'], before)
    self.assertEqual(again.last('status')['updates']['long_splits'], 0)

  def test_members_have_one_codec(self):
    port, agents = self.grouped(2)
    settings = [*SETTINGS, 'swarm.exchange.update.codec=topk']
    other = self.agent(
      'other',
      '--config',
      self.quadratic(),
      '--bootstrap',
      f'127.0.0.1:{port}',
      *[word for setting in settings for word in ('--set', setting)],
    )
    self.assertEqual(self.wait_end(other, 20), 1, self.logs())
    self.assertIn('exchange.update.codec: ', other.log())
    self.assertIsNone(other.last('joined'))
    self.assert_all_run(agents)

  def test_all_end_with_one_model(self):
    _, agents = self.grouped(3, 'swarm.stop_after=500', 'swarm.local_steps=20', 'swarm.exchange.update.codec=topk')
    for agent in agents:
      self.wait(lambda: agent.last('finish'), f'{agent.name} to finish')
      self.assertEqual(agent.last('finish')['reason'], 'stop_after')
    self.assertEqual(len({agent.last('finish')['log_heads'] for agent in agents}), 1, self.logs())
    self.assertEqual({agent.last('finish')['residual_norm'] for agent in agents}, {0.0})

  def test_a_run_that_one_prolongs_while_all_train_ends_with_one_model(self):
    port, agents = self.grouped(3, 'swarm.stop_after=2000', 'swarm.local_steps=20', 'agent.checkpoint.every=300ms')
    raiser, others = agents[2], agents[:2]
    raiser.kill()
    raiser = self.agent('c', '--bootstrap', f'127.0.0.1:{port}', '--set', 'swarm.stop_after=2400')
    for agent in others:
      self.wait_log(agent, 'c prolongs the run to step 2400 (swarm.stop_after)')
      self.assertLess(agent.steps(), 2000, 'it trains still')
    agents = [*others, raiser]
    for agent in agents:
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertGreaterEqual(agent.last('finish')['swarm_steps'], 2400, self.logs())
      self.assertTrue(agent.last('finish')['settled'], self.logs())
    self.assertEqual(len({agent.last('finish')['log_heads'] for agent in agents}), 1, self.logs())
    self.assertEqual({agent.last('finish')['residual_norm'] for agent in agents}, {0.0})

  def test_a_joiner_has_its_donors_step_number_schedule_position_and_outer_state(self):
    schedule = ['schedule=step', 'decay=0.9', 'decay_every=100']
    settings = ['swarm.local_steps=20', 'swarm.stop_after=2000', 'swarm.exchange.outer.momentum=0.9']
    _, agents = self.grouped(2, *settings, *[f'swarm.optimizer.{setting}' for setting in schedule])
    before = agents[0].steps()
    slow = {'STARLING_TEST_COMPUTE_MS': '25'}  # a status each second sees its ramp
    joiner = self.joiner('c', agents[0].address(), environment=slow)
    began = self.joined(joiner, 'fetched')['steps']
    self.assertGreaterEqual(began, before - 40)  # what its donor has saved last is a round or two old
    self.assertLessEqual(began, max(agent.steps() for agent in agents))
    for agent in [*agents, joiner]:
      self.assertEqual(self.wait_end(agent), 0, self.logs())
    ramps = set()
    for event in (event for event in joiner.events('status') if event['phase'] == 'training'):
      scale = event['learning_rate'] / 0.05 / 0.9 ** (event['swarm_steps'] // 100)
      ramp = min(1, (event['steps'] - began + 1) / 100)
      self.assertAlmostEqual(scale, ramp, delta=0.02, msg=f'{event}{self.logs()}')
      ramps.add(round(ramp, 2))
    self.assertLess(min(ramps), 1)
    self.assertIn(1, ramps)
    momenta = {swarm.outer_momentum(agent.state) for agent in [*agents, joiner]}
    self.assertEqual(len(momenta), 1, self.logs())
    self.assertTrue(any(momenta.pop()))

  # Real gradients, so that hooks tell of real layers. Where the kill falls within a step is chance.
  def test_who_is_killed_while_it_sends_during_backward_holds_nobody_up(self):
    root = pathlib.Path(os.environ['STARLING_ROOT'])
    settings = ['swarm.model.hidden=[256, 128]', 'swarm.stop_after=900', 'agent.data.path=generated', 'agent.threads=1']
    flags = [word for setting in settings for word in ('--set', setting)]
    _, agents = self.swarm(4, root / 'configs/gradients.yaml', *flags)
    killed, others = agents[3], agents[:3]
    self.wait(lambda: killed.steps() >= 20, 'steps of all')
    killed.kill()
    for agent in others:
      self.wait(lambda: agent.last('finish'), f'{agent.name} to finish')
      self.assertEqual(agent.last('finish')['reason'], 'stop_after')
      # As many as the processors leave time for: slices are handed in early only while the round before has ended.
      self.assertGreater(agent.last('finish')['updates']['early'], agent.last('finish')['steps'] / 4)


if __name__ == '__main__':
  swarm.main()
