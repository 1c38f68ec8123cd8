"""Checkpoints are written beside the steps, and a kill at any moment leaves the last whole one."""

import random

import swarm

LARGE = 1_000_000  # a checkpoint of 4 MB
KILLS = 20


class Checkpoints(swarm.Case):
  def test_steps_go_on_while_one_is_written(self):
    """A status of later steps is told of before the checkpoint is. Steps without noise are shorter than a write."""
    quick = ['--set', 'swarm.model.noise=0', '--set', 'swarm.local_steps=1']
    agent = self.agent('a', '--config', self.quadratic(dimension=LARGE, every='1ms'), *quick)

    def beside():
      steps = 0
      for event in agent.events():
        if event['event'] == 'status':
          steps = event['steps']
        elif event['event'] == 'checkpoint' and event['steps'] < steps:
          return event
      return None

    saved = self.wait(beside, 'steps beside a checkpoint')
    self.assertNotIn('error', saved)

  def test_kills_at_random_moments(self):
    """Each life goes on from the last checkpoint that was told of, or a later one, and passes none over."""
    config = self.quadratic(dimension=LARGE, every='20ms')
    choice = random.Random(11)
    agent = self.agent('a', '--config', config)
    self.joined(agent, 'genesis')
    for kill in range(KILLS):
      count = len(agent.events('checkpoint'))
      self.wait(lambda agent=agent, count=count: len(agent.events('checkpoint')) > count, 'a checkpoint')
      swarm.pause(choice.random() * 0.3)
      agent.kill()
      saved, lives = agent.last('checkpoint')['steps'], len(agent.events('joined'))
      agent = self.agent('a', '--config', config)
      self.wait(lambda agent=agent, lives=lives: len(agent.events('joined')) > lives or not agent.running(), 'a life')
      self.assertEqual(agent.last('joined')['how'], 'resumed', f'kill {kill}' + self.logs())
      self.assertGreaterEqual(agent.last('joined')['steps'], saved, f'kill {kill}' + self.logs())
    self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
    self.assertNotIn('passed over', agent.log())
    self.assertEqual([path for path in (agent.state / 'checkpoints').iterdir() if path.suffix != '.ckpt'], [])


if __name__ == '__main__':
  swarm.main()
