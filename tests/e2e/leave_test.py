"""Leaving politely, being killed, and coming back with the same state folder."""

import signal

import swarm


class Leave(swarm.Case):
  def test_interrupt_leaves_politely_and_the_state_resumes(self):
    config = self.quadratic(every='30s')
    port, agents = self.swarm(3, config)
    leaver, others = agents[0], agents[1:]
    peer = leaver.peer()
    self.wait(lambda: leaver.steps() > 50, 'some steps')
    leaver.send(signal.SIGINT)  # one Ctrl-C comes twice through timeout(1)
    status, seconds = self.interrupt(leaver)
    self.assertEqual(status, 0, self.logs())
    self.assertLess(seconds, 2)
    self.assertEqual(leaver.last('finish')['reason'], 'signal')
    for agent in others:
      self.wait(lambda: agent.last('member', peer=peer, change='left'), f'{agent.name} to see it leave', 5)
      self.assertIsNone(agent.last('member', peer=peer, change='died'))
    saved = leaver.last('checkpoint')
    self.assertNotIn('error', saved)
    self.assertEqual(saved['steps'], leaver.last('finish')['steps'])

    returned = self.agent('a', '--config', config, '--bootstrap', f'127.0.0.1:{port}')
    event = self.wait(lambda: returned.last('joined', how='resumed'), 'the agent to resume')
    self.assertEqual(event['steps'], saved['steps'])
    self.assertEqual([start['peer'] for start in returned.events('start')], [peer, peer])
    generations = [start['generation'] for start in returned.events('start')]
    self.assertGreater(generations[1], generations[0])
    done = returned.done()
    self.wait(lambda: returned.done() > done + 5, 'exchanges after the return')

  def test_a_closed_terminal_lets_it_leave_politely_unless_it_was_told_to_stay(self):
    config = self.quadratic()
    self.addCleanup(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs this test may ignore it, which an agent inherits
    port, agents = self.swarm(2, config)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    stays = self.joiner('stays', f'127.0.0.1:{port}')
    self.joined(stays, 'fetched')
    leaver, other = agents
    peer = leaver.peer()
    for agent in (leaver, stays):
      agent.send(signal.SIGHUP)
    self.assertEqual(self.wait_end(leaver, 10), 0, self.logs())
    self.assertEqual(leaver.last('finish')['reason'], 'signal')
    self.wait(lambda: other.last('member', peer=peer, change='left'), 'the other to see it leave')
    steps = stays.steps()
    self.wait(lambda: stays.steps() > steps, 'steps of the one that stays')
    self.assertRegex(stays.log(), r'(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} info ')

  def test_kill_costs_at_most_one_checkpoint_interval(self):
    config = self.quadratic(every='1s')
    port, agents = self.swarm(2, config)
    self.wait(lambda: len(agents[0].events('checkpoint')) >= 3, 'checkpoints')
    agents[0].kill()
    saved, reached = agents[0].last('checkpoint')['steps'], agents[0].steps()
    returned = self.agent('a', '--config', config, '--bootstrap', f'127.0.0.1:{port}')
    event = self.wait(lambda: returned.last('joined', how='resumed'), 'the agent to resume')
    self.assertGreaterEqual(event['steps'], saved)  # a checkpoint may be whole before its line is written
    self.assertLessEqual(reached - event['steps'], 200, 'more than a second of steps was lost')

  def test_a_joiner_resumes_without_a_config(self):
    port, _ = self.swarm(2, self.quadratic())
    joiner = self.joiner('j', f'127.0.0.1:{port}')
    self.joined(joiner, 'fetched')
    self.wait(lambda: joiner.done() >= 3, 'exchanges')
    self.interrupt(joiner)
    saved = joiner.last('checkpoint')['steps']
    returned = self.joiner('j', f'127.0.0.1:{port}')
    # It fetches where it was away for too many rounds.
    self.wait(lambda: [e for e in returned.events('joined') if e['steps'] >= saved], 'the joiner to go on')

  def test_a_founder_goes_on_with_its_stored_settings(self):
    founder = self.agent('a', '--config', self.quadratic(codec='fp32'))
    self.joined(founder, 'genesis')
    member = self.joiner('m', founder.address())
    self.joined(member, 'fetched')
    self.wait(lambda: founder.done() >= 3, 'exchanges')
    self.interrupt(founder)
    self.interrupt(member)
    saved = founder.last('checkpoint')['steps']
    returned = self.agent('a', '--alone')  # nobody is there to tell it
    event = self.wait(lambda: returned.last('joined', how='resumed'), 'the founder to resume')
    self.assertEqual(event['steps'], saved)
    self.assertEqual([start['peer'] for start in returned.events('start')], [returned.peer()] * 2)
    self.wait(lambda: returned.steps() > saved, 'steps')
    done = returned.done()
    self.joiner('m', returned.address())
    self.wait(lambda: returned.done() > done + 5, 'exchanges with the other after both returned')

  def test_after_a_power_cut_members_find_each_other_without_any_address(self):
    config = self.quadratic()
    listens = ['--listen', f'127.0.0.1:{swarm.free_port_pair()}']
    founder = self.agent('a', '--config', config, *listens)
    self.joined(founder, 'genesis')
    others = ['--listen', f'127.0.0.1:{swarm.free_port_pair()}']
    member = self.joiner('m', founder.address(), *others)
    for agent in (founder, member):
      self.wait(lambda: 'seen alive' in self.known(agent), f'{agent.name} to write down the other')
    for agent in (founder, member):
      agent.kill()
    saved = founder.last('checkpoint')['steps']
    returned = self.agent('a', *listens)
    self.wait_log(returned, '0 of 1 members that this agent trained with are back', '--alone')
    self.assertEqual(len(returned.events('joined')), 1, 'it trains alone' + self.logs())
    back = self.agent('m', *others)
    event = self.wait(lambda: returned.last('joined', how='resumed'), 'the agent to resume')
    self.assertGreaterEqual(event['steps'], saved)
    for agent in (returned, back):
      done = agent.done()
      self.wait(lambda: agent.done() > done + 5, f'exchanges of {agent.name} after the return')

  def test_a_registry_alone_is_no_peer(self):
    port, agents = self.swarm(2, self.quadratic())
    for agent in agents:
      self.wait(lambda: 'seen alive' in self.known(agent), f'{agent.name} to write down the other')
    for agent in agents:
      agent.kill()
    self.bootstrap.kill()
    self.bootstrap = self.registry('bootstrap', port)
    returned = self.agent('a', '--bootstrap', f'127.0.0.1:{port}')
    self.wait_log(returned, '0 of 1 members')
    swarm.pause(5)
    self.assertEqual(len(returned.events('joined')), 1, 'it trains alone' + self.logs())
    other = self.agent('b', '--bootstrap', f'127.0.0.1:{port}')
    for agent in (returned, other):
      done = agent.done()
      self.wait(lambda: agent.done() > done + 5, f'exchanges of {agent.name} after the return')
    for agent in (returned, other):
      agent.kill()
    patient = self.agent('a', '--bootstrap', f'127.0.0.1:{port}', '--set', 'agent.return_wait=5s')
    self.wait_log(patient, 'this agent trains alone now')
    self.wait(lambda: len(patient.events('joined')) == 3, 'it to train')

  def test_a_finished_run_goes_on_when_one_member_prolongs_it(self):
    config = self.quadratic()
    port, agents = self.swarm(2, config, '--set', 'swarm.stop_after=60')
    for agent in agents:
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertGreaterEqual(agent.last('finish')['steps'], 60)
    settings = [(agent.state / 'settings.yaml').read_text() for agent in agents]
    lower = self.agent('a', '--set', 'swarm.stop_after=30')
    self.assertEqual(self.wait_end(lower), 1)
    self.assertIn('it goes to step 60 now', lower.log())
    far = self.agent('a', '--set', 'swarm.stop_after=6000')
    self.assertEqual(self.wait_end(far), 1)
    self.assertIn('write 600', far.log())
    endless = self.agent('a', '--config', config, '--set', 'swarm.stop_after=0')
    self.assertEqual(self.wait_end(endless), 1)
    self.assertIn('cannot be made endless', endless.log())
    faster = ['--config', self.quadratic('faster.yaml', learning_rate=0.1)]
    another = self.agent('a', *faster, '--set', 'swarm.stop_after=100')
    self.assertEqual(self.wait_end(another), 1)
    said = another.log().rsplit('cannot be made endless', 1)[1]
    self.assertIn('belongs to another swarm', said)
    self.assertNotIn('prolongs the run', said)
    self.assertFalse((another.state / 'stop_after').exists(), 'nothing was changed')

    seeds = ['--bootstrap', f'127.0.0.1:{port}']
    longer = self.agent('a', *seeds, '--set', 'swarm.stop_after=600')
    self.wait_log(longer, '0 of 1 members that this agent trained with are back')
    other = self.agent('b', *seeds)
    for agent in (longer, other):
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertEqual(agent.last('finish')['reason'], 'stop_after')
      self.assertGreaterEqual(agent.last('finish')['steps'], 600, self.logs())
    self.assertIn('a prolongs the run to step 600', other.log())
    self.assertEqual(settings, [(agent.state / 'settings.yaml').read_text() for agent in agents])
    again = self.agent('b', *seeds, '--set', 'swarm.stop_after=300')  # of a command line before that
    self.assertEqual(self.wait_end(again), 0, self.logs())
    self.assertIn('goes to step 600 since it was prolonged further', again.log())
    self.assertIn('of 600 steps are taken already', again.log())
    said = again.log().rsplit('of 600 steps are taken already', 1)[1]
    self.assertNotIn('loss', said, 'none was measured')
    self.assertIsNone(again.events('finish')[-1]['loss'])

  def test_a_slow_member_that_starts_again_after_the_end_trains_no_further_alone(self):
    begins = ['--config', self.quadratic(), '--wait-for', '3', '--set', 'swarm.stop_after=200']
    fast, slow = ({'environment': {'STARLING_TEST_COMPUTE_MS': str(ms)}} for ms in (10, 40))
    first = self.agent('first', *begins, **fast)
    self.wait(lambda: first.last('start'), 'an address')
    second, last = self.joiner('second', first.address(), **fast), self.joiner('slow', first.address(), **slow)
    for agent in first, second, last:
      self.assertEqual(self.wait_end(agent), 0, self.logs())
    ended = last.last('finish')['steps']
    self.assertLess(ended, 190, 'the others ended the run')
    again = self.agent('slow', **slow)
    self.assertEqual(self.wait_end(again), 0, self.logs())
    self.assertEqual(again.last('finish')['steps'], ended, again.log())
    self.assertIn(f"ended at step 200 of the swarm, and this agent's at step {ended}", again.log())

  def known(self, agent):
    path = agent.state / 'members'
    return path.read_text() if path.exists() else ''

  def test_a_member_that_is_killed_just_before_the_end_spoils_nothing(self):
    slow = {'environment': {'STARLING_TEST_COMPUTE_MS': '20'}}
    begins = ['--config', self.quadratic(), '--wait-for', '3', '--set', 'swarm.stop_after=200']
    first = self.agent('first', *begins, **slow)
    self.wait(lambda: first.last('start'), 'an address')
    second, killed = (self.joiner(name, first.address(), **slow) for name in ('second', 'killed'))
    self.wait(lambda: killed.steps() >= 180, 'the end to be near')
    killed.kill()
    for agent in first, second:
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertTrue(agent.last('finish')['settled'], self.logs())
      self.assertIn(' is gone', agent.log())

  def test_second_agent_on_the_same_state_is_refused(self):
    port, agents = self.swarm(2, self.quadratic())
    second = self.agent('second', '--bootstrap', f'127.0.0.1:{port}', state=agents[0].state)
    self.assertEqual(self.wait_end(second), 1)
    self.assertIn('another agent', second.log())
    self.assertIn(str(agents[0].state), second.log())
    self.assert_all_run(agents)

  def test_an_interrupt_at_any_moment_of_the_start(self):
    config = self.quadratic()
    for number, begun in enumerate(
      ['', 'state', 'state/identity.key', 'state/generation', 'state/settings.yaml', 'state/checkpoints']
    ):
      agent = self.agent(f'early{number}', '--config', config)
      self.wait(lambda: (agent.folder / begun).exists(), f'the folder to hold {begun}')
      status, seconds = self.interrupt(agent)
      self.assertIn(status, (0, -signal.SIGINT) if number == 0 else (0,), self.logs())
      self.assertLess(seconds, 10)
      again = self.agent(f'early{number}', '--config', config)
      self.joined(again)
      again.kill()

  def test_a_registry_leaves_on_interrupt(self):
    registry = self.registry('bootstrap', swarm.free_port_pair())
    self.wait_log(registry, 'listens on')
    status, seconds = self.interrupt(registry)
    self.assertEqual(status, 0)
    self.assertLess(seconds, 2)

  def test_everyone_leaves_at_once(self):
    _, agents = self.swarm(3, self.quadratic())
    for agent in agents:
      agent.send(signal.SIGINT)
    for agent in agents:
      self.assertEqual(self.wait_end(agent, 3), 0, self.logs())
      self.assertEqual(agent.last('finish')['reason'], 'signal')


if __name__ == '__main__':
  swarm.main()
