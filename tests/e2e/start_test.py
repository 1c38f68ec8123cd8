"""Starting together, in any order; stopping, whatever a step takes; the exit status that tells how a run ended."""

import os
import re
import resource
import signal

import swarm

NOTHING_SHARED, NOT_SAVED, APART, ENDED_AT_ONCE = 3, 4, 5, 130


class Together(swarm.Case):
  def test_machines_that_start_seconds_apart_train_one_model(self):
    """The lines that `init` prints, each typed a while after the one before."""
    config = self.folder / 'swarm.yaml'
    init = self.start('init', 'init', '--task', 'digits', config)
    self.assertEqual(self.wait_end(init), 0, self.logs())
    port = swarm.free_port_pair()
    address = f'127.0.0.1:{port}'
    self.registry('bootstrap', port)
    rest = ['--data', 'generated', '--sharding', 'iid', '--threads', '1']
    first = self.agent(
      'first', '--config', config, '--set', 'swarm.stop_after=60', '--wait-for', 3, '--bootstrap', address,
      '--shard', '1/3', *rest,
    )  # fmt: skip
    self.wait_log(first, 'waits for 2 more agents before the first step (swarm.wait_for: 3); here: this agent')
    second = self.joiner('second', address, '--shard', '2/3', *rest)
    self.wait_log(first, 'waits for 1 more agent', 'here: this agent, second')
    self.wait_log(second, 'waits for 1 more agent', 'here: this agent, first')
    swarm.pause(3)  # in which today's first agent would have ended
    for agent in first, second:
      self.assertEqual(agent.steps(), 0)
      self.assertIsNone(agent.last('joined'))
    third = self.joiner('third', address, '--shard', '3/3', *rest)
    agents = [first, second, third]
    for agent in agents:
      self.assertEqual(self.wait_end(agent, 120), 0, self.logs())
    for agent in agents:
      finish = agent.last('finish')
      self.assertGreater(finish['exchanges']['done'], 0, self.logs())
      self.assertTrue(finish['settled'], self.logs())
      self.assertIn('all models agree', agent.log())

  def test_two_people_who_each_write_a_config_have_two_swarms(self):
    """`init` draws a seed for each, so that an agent of one is told that the other's swarm is another one."""
    configs = [self.folder / f'{name}.yaml' for name in 'ab']
    for config in configs:
      self.assertEqual(self.wait_end(self.start(f'init-{config.stem}', 'init', '--task', 'digits', config)), 0)
    seeds = [re.search(r'rng_seed: (\d+)', config.read_text())[1] for config in configs]
    self.assertNotEqual(*seeds)
    rest = ['--data', 'generated', '--threads', '1', '--wait-for', '1']
    first = self.agent('a', '--config', configs[0], *rest)
    self.joined(first)
    other = self.agent('b', '--config', configs[1], '--bootstrap', first.address(), *rest)
    self.assertEqual(self.wait_end(other), 1, self.logs())
    self.assertIn(f'rng_seed: {seeds[1]}', other.log())
    self.assertIn('To join that swarm, start without --config', other.log())
    self.assertIsNone(other.last('joined'))
    self.assert_all_run([first])

  def pair(self, config):
    first = self.agent('first', '--config', config, '--wait-for', 2)
    self.wait_log(first, 'waits for 1 more agent')
    second = self.joiner('second', first.address())
    for agent in first, second:
      self.wait(lambda agent=agent: agent.done() >= 3, 'exchanges')
    return first, second

  def test_who_comes_later_neither_waits_nor_decides(self):
    config = self.quadratic()
    first, _ = self.pair(config)
    late = self.joiner('late', first.address(), '--wait-for', 9, '--set', 'swarm.stop_after=5')
    self.joined(late, 'fetched')
    self.wait_log(late, 'swarm.stop_after, swarm.wait_for: ignored')
    other = self.agent('other', '--config', config, '--wait-for', 5, '--bootstrap', first.address())
    self.joined(other, 'fetched')
    self.wait_log(other, 'swarm.wait_for: 5 of this agent is ignored: the swarm was begun with 2')
    for agent in late, other:
      self.wait(lambda agent=agent: agent.done() >= 3, 'exchanges')
      self.assertNotIn('waits for', agent.log())

  def test_an_interrupt_while_it_waits_leaves_nothing_and_says_so(self):
    config = self.quadratic()
    waiting = self.agent('waiting', '--config', config, '--wait-for', 2)
    self.wait_log(waiting, 'waits for 1 more agent')
    self.wait(lambda: waiting.last('checkpoint'), 'the genesis to be there for others')
    status, seconds = self.interrupt(waiting)
    self.assertEqual(status, 0, self.logs())
    self.assertLess(seconds, 2)
    self.assertIn('leaving; again to stop now', waiting.log())
    self.assertIn('nothing is trained', waiting.log())
    self.assertNotIn('loss', waiting.log())

    again = self.agent('waiting', '--config', config)
    self.wait(lambda: again.log().count('waits for 1 more agent') == 2, 'it to wait again')
    joiner = self.joiner('joiner', again.address())
    for agent in again, joiner:
      self.wait(lambda agent=agent: agent.done() >= 3, 'exchanges')

  def test_a_run_without_one_exchange_has_a_status_of_its_own(self):
    config = self.quadratic()
    first, second = self.pair(config)
    for agent in first, second:
      self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
    steps = first.steps()
    alone = self.agent('first', '--config', config, '--alone')
    self.wait(lambda: alone.steps() > steps + 20, 'steps')
    self.assertEqual(self.interrupt(alone)[0], NOTHING_SHARED, self.logs())
    self.assertIn('without one exchange', alone.log())
    self.assertIn('swarm.wait_for: 2', alone.log())

  def test_a_run_that_reached_nobody_named_has_it_too(self):
    nobody = f'127.0.0.1:{swarm.free_port_pair()}'
    begins = ['--config', self.quadratic(), '--wait-for', '1', '--set', 'swarm.stop_after=50']
    alone = self.agent('alone', *begins, '--bootstrap', nobody)
    self.assertEqual(self.wait_end(alone), NOTHING_SHARED, self.logs())

    registry = self.registry('registry', port := swarm.free_port_pair())
    self.wait_log(registry, 'join with')
    first = self.agent('first', *begins, '--bootstrap', f'127.0.0.1:{port}')
    self.assertEqual(self.wait_end(first), 0, 'a registry answered' + self.logs())

  def test_an_end_without_all_members_has_a_status_of_its_own(self):
    begins = [
      '--config', self.quadratic(), '--wait-for', '3',
      '--set', 'swarm.stop_after=50', '--set', 'swarm.consensus_timeout=1s',
    ]  # fmt: skip
    first = self.agent('first', *begins)
    self.wait(lambda: first.last('start'), 'an address')
    second = self.joiner('second', first.address())
    self.joiner('slow', first.address(), environment={'STARLING_TEST_COMPUTE_MS': '600000'})
    for agent in first, second:
      self.assertEqual(self.wait_end(agent), APART, self.logs())
      self.assertIn('1 member had not ended its steps', agent.log())


class Stop(swarm.Case):
  def test_the_step_in_hand_is_finished_and_saved(self):
    config = self.quadratic(every='1h')
    agent = self.agent(
      'a', '--config', config, '--set', 'swarm.local_steps=1', environment={'STARLING_TEST_COMPUTE_MS': '4000'}
    )
    self.wait(lambda: agent.steps() >= 1, 'a step')
    told = len(agent.events('status'))
    self.wait(lambda: len(agent.events('status')) >= told + 2, 'the next step to have begun a second ago')
    agent.send(signal.SIGTERM)
    self.wait_log(agent, 'SIGTERM: finishing this step; again to stop now', seconds=1)
    self.assertEqual(self.wait_end(agent, 15), 0, self.logs())
    saved, finish = agent.last('checkpoint'), agent.last('finish')
    self.assertGreaterEqual(saved['steps'], 2, 'the one in hand')
    self.assertEqual(saved['steps'], finish['steps'])
    self.assertIn(saved['file'], agent.log())

  def test_a_closed_terminal_is_named(self):
    agent = self.agent('a', '--config', self.quadratic())
    self.joined(agent)
    agent.send(signal.SIGHUP)
    self.assertEqual(self.wait_end(agent), 0, self.logs())
    self.assertIn('SIGHUP (a terminal has closed, or a reload): ', agent.log())

  def test_a_long_round_ends_with_the_step_in_hand(self):
    config = swarm.ROOT / 'configs' / 'digits.yaml'
    agent = self.agent(
      'a', '--config', config, '--data', 'generated', '--threads', 1, '--set', 'swarm.local_steps=100000',
      environment={'STARLING_TEST_COMPUTE_MS': '0'},
    )  # fmt: skip
    self.joined(agent)
    self.wait(lambda: agent.last('checkpoint'), 'the first boundary')
    swarm.pause(1)
    status, seconds = self.interrupt(agent)
    self.assertEqual(status, 0, self.logs())
    self.assertLess(seconds, 20)
    saved = agent.last('checkpoint')
    self.assertGreater(saved['steps'], 0)
    self.assertLess(saved['steps'], 100000)
    self.assertEqual(saved['steps'], agent.last('finish')['steps'])

  def test_a_second_signal_ends_it_at_once(self):
    agent = self.agent('a', '--config', self.quadratic(), environment={'STARLING_TEST_COMPUTE_MS': '60000'})
    self.joined(agent)
    swarm.pause(0.5)  # the step begins
    agent.send(signal.SIGINT)
    self.wait_log(agent, 'finishing this step')
    swarm.pause(0.7)
    agent.send(signal.SIGINT)
    self.assertEqual(self.wait_end(agent, 5), ENDED_AT_ONCE, self.logs())
    self.assertNotIn('loss', agent.log())

  def test_a_model_that_cannot_be_saved_is_no_good_end(self):
    def occupy(agent):
      os.rename(agent.state, f'{agent.state}.moved')
      agent.state.write_text('something else')

    for name, spoil, remedy in [
      ('large', lambda agent: None, 'raise that limit'),
      ('gone', occupy, 'choose another one with --state'),
    ]:
      with self.subTest(name):
        limits = {resource.RLIMIT_FSIZE: 300_000} if name == 'large' else {}
        config = self.quadratic(dimension=100_000, every='1h')
        agent = self.agent(name, '--config', config, limits=limits)
        self.wait(lambda agent=agent: agent.steps() > 10, 'steps')
        spoil(agent)
        self.assertEqual(self.interrupt(agent)[0], NOT_SAVED, self.logs())
        self.assertRegex(agent.log(), r'the model of step \d+ is not saved: ')
        self.assertIn(remedy, agent.log())

  def test_data_that_are_not_there_end_it_before_it_joins(self):
    first = self.agent('first', '--config', self.quadratic())
    self.joined(first)
    for name, options in ('absent', ['--data', '/nowhere']), ('other', ['--data', self.folder]):
      joiner = self.joiner(name, first.address(), *options)
      self.assertEqual(self.wait_end(joiner), 1, self.logs())
      self.assertIn(str(options[1]), joiner.log())
      self.assertEqual(joiner.events('start'), [])
    self.assertEqual(first.events('member'), [])


if __name__ == '__main__':
  swarm.main()
