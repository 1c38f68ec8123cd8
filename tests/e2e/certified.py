"""Certified swarms for the end-to-end tests: the holder of the key, its members, and what its commands say."""

import os
import re
import subprocess

import swarm

SOON = 10  # seconds, for a reason; the program says it within five, on a machine that does nothing else
KEY = re.compile(r'#[A-Za-z0-9_-]{20,}')


class Case(swarm.Case):
  def first(self, name='first', *arguments, config=None, **options):
    """The agent that begins a swarm and holds its key. `config`: else a quadratic one."""
    path = config or self.quadratic(f'{name}.yaml')
    path.write_text(path.read_text().replace('swarm:\n', 'swarm:\n  trust: certified\n'))
    agent = self.agent(name, '--config', path, *arguments, **options)
    self.joined(agent)
    return agent

  def command(self, *arguments, status=0, environment=None):
    """What a command that ends by itself says on stdout; or, where it fails, all that it says."""
    done = subprocess.run(
      [swarm.PROGRAM, *map(str, arguments)],
      capture_output=True,
      text=True,
      timeout=swarm.PATIENCE,
      cwd=self.folder,
      env={**os.environ, **(environment or {})},
    )
    self.assertEqual(done.returncode, status, done.stdout + done.stderr)
    return done.stdout if status == 0 else done.stdout + done.stderr

  def id_of(self, name):
    return self.command('key', '--state', self.folder / name / 'state').strip()

  def ticket(self, holder, name, *arguments):
    return self.command('admit', self.id_of(name), '--state', holder.state, *arguments).strip()

  def member(self, holder, name, *arguments, **options):
    agent = self.joiner(name, self.ticket(holder, name, *arguments), **options)
    self.joined(agent, 'fetched')
    return agent

  def trained(self, agents, count=3):
    before = [agent.done() for agent in agents]
    self.wait(
      lambda: all(agent.done() >= done + count for agent, done in zip(agents, before)), 'exchanges of all of them'
    )

  def ends_exchanges(self, process, others):
    """From now on nothing is exchanged with it, while the others go on."""
    before = process.done()
    self.trained(others, 5)
    self.assertEqual(process.done(), before, process.log())
