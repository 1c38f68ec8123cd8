"""Damaged checkpoints and a full disk: the agent says so and loses nothing it need not lose."""

import resource

import swarm


def newest_first(agent):
  return sorted((agent.state / 'checkpoints').iterdir(), reverse=True)


class DamagedCheckpoint(swarm.Case):
  def stopped_agent(self):
    """An agent that has left, with three checkpoints; and its config."""
    config = self.quadratic(every='300ms')
    agent = self.agent('a', '--config', config)
    self.wait(lambda: len(agent.events('checkpoint')) >= 5, 'checkpoints')
    self.assertEqual(self.interrupt(agent)[0], 0)
    return agent, config

  def resume_after(self, spoil):
    """Spoils the newest checkpoint: the agent must say which, and resume from the one before."""
    agent, config = self.stopped_agent()
    newest, second = newest_first(agent)[:2]
    steps = [event['steps'] for event in agent.events('checkpoint')]
    spoil(newest)
    returned = self.agent('a', '--config', config)
    event = self.wait(lambda: returned.last('joined', how='resumed'), 'the agent to resume')
    self.assertEqual(event['steps'], steps[-2])
    self.assertIn(str(newest), returned.log())
    self.assertNotIn(f'{second}:', returned.log())
    self.assertIn('trying the one before', returned.log())

  def test_a_flipped_bit(self):
    def spoil(path):
      data = bytearray(path.read_bytes())
      data[len(data) // 2] ^= 4
      path.write_bytes(data)

    self.resume_after(spoil)

  def test_cut_short(self):
    self.resume_after(lambda path: path.write_bytes(path.read_bytes()[:-100]))

  def test_empty(self):
    self.resume_after(lambda path: path.write_bytes(b''))

  def test_another_version(self):
    def spoil(path):
      data = bytearray(path.read_bytes())
      data[8] = 99
      path.write_bytes(data)

    self.resume_after(spoil)


class FullDisk(swarm.Case):
  DIMENSION = 100_000  # a checkpoint of 400 kB

  def test_fills_up_and_gets_room_again(self):
    small = self.small_disk()
    config = self.quadratic(dimension=self.DIMENSION, every='300ms')
    agent = self.agent('a', '--config', config, state=small / 'state')
    self.wait(lambda: len(agent.events('checkpoint')) >= 3, 'checkpoints')
    self.fill(small)
    failed = self.wait(lambda: next((e for e in agent.events('checkpoint') if 'error' in e), None), 'a failure')
    self.assertIn(str(small), failed['error'])
    steps = agent.steps()
    self.wait(lambda: agent.steps() > steps + 50, 'training to go on')
    self.wait_log(agent, 'checkpoint failed')
    (small / 'filler').unlink()
    saved = self.wait(lambda: 'error' not in agent.last('checkpoint') and agent.last('checkpoint'), 'room to be used')
    self.assertGreater(saved['steps'], failed['steps'])
    self.assertEqual(self.interrupt(agent)[0], 0)

  def test_no_file_may_grow(self):
    """Where nothing can be mounted: a limit on the size of files fails the same writes."""
    config = self.quadratic(dimension=self.DIMENSION, every='300ms')
    agent = self.agent('a', '--config', config, limits={resource.RLIMIT_FSIZE: 300_000})
    failed = self.wait(lambda: next((e for e in agent.events('checkpoint') if 'error' in e), None), 'a failure')
    self.assertIn('state', failed['error'])
    steps = agent.steps()
    self.wait(lambda: agent.steps() > steps + 50, 'training to go on')
    self.assertTrue(agent.running())
    leftovers = [path for path in (agent.state / 'checkpoints').iterdir() if path.stat().st_size > 0]
    self.assertEqual(leftovers, [])
    agent.send(2)
    self.assertEqual(self.wait_end(agent, 10), 4, self.logs())


if __name__ == '__main__':
  swarm.main()
