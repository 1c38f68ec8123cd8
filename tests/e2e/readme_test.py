"""The commands of README.md run as they stand there: what it calls HOST is this machine, FOLDER holds the digits,
TICKET is the first agent's, and agents on the same machine get ports and folders of their own."""

import os
import pathlib
import random
import re
import shlex

import swarm

LONG = 240  # seconds that a command with an end may take on a busy machine
STEPS = 300  # of the run that README begins; its own would take minutes
# Seconds between the starts of two machines, at most: people type them. `tools/test --long` sets the variable.
APART = 90 if float(os.environ.get('STARLING_SEEDS', '1')) > 1 else 4


def commands():
  """The lines of README's code that begin a program of this repository, without their comments."""
  lines = re.findall(r'^ {4}((?:starling|tools/\S+).*)$', (swarm.ROOT / 'README.md').read_text(), re.M)
  return [re.sub(r'\s+#.*', '', line) for line in lines]


class Readme(swarm.Case):
  def setUp(self):
    super().setUp()
    digits = pathlib.Path(os.environ.get('STARLING_DIGITS', swarm.ROOT / 'build/data/digits'))
    if not digits.is_dir():
      self.skipTest('no digits here')
    (self.folder / 'build/data').mkdir(parents=True)
    (self.folder / 'build/data/digits').symlink_to(digits)
    (self.folder / 'configs').symlink_to(swarm.ROOT / 'configs')
    self.places = {'HOST': '127.0.0.1', 'FOLDER': 'build/data/digits', '7400': str(swarm.free_port_pair())}

  def words(self, command):
    for name, value in self.places.items():
      command = re.sub(rf'\b{name}\b', value, command)
    return shlex.split(command)[1:]

  def test_every_tool_is_there(self):
    tools = {command.split()[0] for command in commands() if command.startswith('tools/')}
    self.assertIn('tools/demo', tools)
    for tool in tools:
      self.assertTrue((swarm.ROOT / tool).is_file(), tool)

  def test_commands_that_end(self):
    ending = [c for c in commands() if re.match(r'starling (init|check|swarm|simulate|topology|plan) ', c)]
    self.assertGreaterEqual(len(ending), 5)
    for index, command in enumerate(dict.fromkeys(ending)):
      with self.subTest(command):
        process = self.start(f'command-{index}', *self.words(command), working=self.folder)
        self.assertEqual(self.wait_end(process, LONG), 0, process.log())

  def test_machines(self):
    """Its three machines start one after the other, end with one model, and that is taken home."""
    running = [c for c in commands() if re.match(r'starling (init|agent)\b', c)]
    joins = next(c for c in running if '--shard 2/3' in c)
    running.append(joins.replace('2/3', '3/3'))
    agents = []
    for index, command in enumerate(dict.fromkeys(running)):
      words = self.words(command)
      if words[0] == 'init':
        self.wait_end(self.start(f'init-{index}', *words, working=self.folder))
        continue
      swarm.pause(random.uniform(0, APART))
      self.assertTrue(all(agent.steps() == 0 for agent in agents), 'no step before all are there' + self.logs())
      own = ['--listen', '0.0.0.0:0']
      if '--config' in words:
        own = ['--listen', f'0.0.0.0:{self.places["7400"]}', '--set', f'swarm.stop_after={STEPS}']
      agents.append(self.agent(f'agent-{index}', *words[1:], *own, working=self.folder))
      if '--config' in words:
        ticket = agents[0].state / 'ticket'
        self.wait(ticket.exists, 'the first agent to have a ticket')
        self.places['TICKET'] = ticket.read_text().strip().partition('#')[2]
    self.assertEqual(len(agents), 3)
    registry = next(
      c for c in re.findall('`(starling [^`]*)`', (swarm.ROOT / 'README.md').read_text()) if 'bootstrap' in c.split()[1]
    )
    place = ['--listen', '127.0.0.1:0', '--state', self.folder / 'registry/state']
    self.wait_log(self.start('registry', *self.words(registry), *place, working=self.folder), 'join with')
    for agent in agents:
      self.wait(lambda agent=agent: agent.done() >= 3, f'exchanges of {agent.name}')
    status = self.take_home(r'starling status', agents[0])
    for agent in agents:
      self.assertIn(agent.name, status)
    for agent in agents:
      self.assertEqual(self.wait_end(agent, LONG), 0, agent.log())
      self.assertTrue(agent.last('finish')['settled'], agent.log())
    self.assert_one_model(agents)
    self.assertRegex(self.take_home(r'starling eval ', agents[0]), r'accuracy \d')
    self.assertIn('wrote model.safetensors', self.take_home(r'starling export ', agents[0]))

  def take_home(self, pattern, agent):
    """What README's command prints; its state folder is the agent's."""
    command = next(c for c in commands() if re.match(pattern, c))
    words = [str(agent.state) if word == 'starling-state' else word for word in self.words(command)]
    if 'starling-state' not in command:
      words += ['--state', agent.state]
    process = self.start(words[0], *words, working=self.folder)
    self.assertEqual(self.wait_end(process), 0, process.log())
    return process.log()


if __name__ == '__main__':
  swarm.main()
