"""Two programs, one of which knows a key more (tests/support/later_key.cpp): with its default they are one swarm."""

import os

import swarm

LATER = os.environ.get('STARLING_LATER', '')
BUILDS = {'today': {}, 'later': {'program': LATER}}


class TwoBuilds(swarm.Case):
  def both_exchange(self, first, second):
    self.wait(lambda: first.done() >= 3 and second.done() >= 3, 'exchanges between the two builds')
    self.assertEqual((first.state / 'settings.yaml').read_bytes(), (second.state / 'settings.yaml').read_bytes())

  def test_two_founders_with_one_config_are_one_swarm(self):
    for founder, other in [('today', 'later'), ('later', 'today')]:
      with self.subTest(founder=founder):
        config = self.quadratic()
        first = self.agent(f'founder-{founder}', '--config', config, **BUILDS[founder])
        self.joined(first, 'genesis')
        second = self.agent(f'other-{other}', '--config', config, '--bootstrap', first.address(), **BUILDS[other])
        self.joined(second)
        self.both_exchange(first, second)

  def test_either_adopts_the_settings_of_the_other(self):
    for founder, other in [('today', 'later'), ('later', 'today')]:
      with self.subTest(founder=founder):
        first = self.agent(f'founder-{founder}', '--config', self.quadratic(), **BUILDS[founder])
        self.joined(first, 'genesis')
        second = self.joiner(f'joiner-{other}', first.address(), **BUILDS[other])
        self.joined(second, 'fetched')
        self.both_exchange(first, second)

  def test_either_resumes_what_the_other_stored(self):
    config = self.quadratic(every='300ms')
    steps = None
    for build in ['today', 'later', 'today']:
      for arguments in [['--config', config], []]:
        agent = self.agent('a', *arguments, **BUILDS[build])
        began = len(agent.events('joined'))
        event = self.wait(lambda: agent.events('joined')[began:] or not agent.running(), f'{build} to join')
        self.assertTrue(agent.running(), self.logs())
        self.assertEqual((event[0]['how'], event[0]['steps'] or None), ('resumed' if steps else 'genesis', steps))
        self.wait(lambda: agent.steps() > (steps or 0) + 20, 'some steps')
        self.assertEqual(self.interrupt(agent)[0], 0)
        steps = agent.last('checkpoint')['steps']

  def test_another_value_of_the_key_is_refused_with_the_version_that_knows_it(self):
    first = self.agent('founder', '--config', self.quadratic(), '--set', 'swarm.exchange.patience=9', **BUILDS['later'])
    self.joined(first, 'genesis')
    for name, arguments in [('adopts', []), ('brings', ['--config', self.quadratic()])]:
      agent = self.agent(name, '--bootstrap', first.address(), *arguments, **BUILDS['today'])
      self.assertEqual(self.wait_end(agent), 1, self.logs())
      self.assertIsNone(agent.last('joined'))
    self.assertIn('they need Starling 0.8.0 or newer', (self.folder / 'adopts' / 'log').read_text())
    self.assertIn('exchange.patience: not set here, 9 there', (self.folder / 'brings' / 'log').read_text())
    self.assertTrue(first.running())


if __name__ == '__main__':
  swarm.main()
