"""Limits of a process that are met: it goes on, or says which limit that was, its value and the remedy."""

import os
import pathlib
import resource
import subprocess

import swarm

ROOT = os.geteuid() == 0
NOBODY = 65534
MIB = 1 << 20


class Limited(swarm.Case):
  def of_another_user(self, name, limit, *arguments):
    """An agent of a user without other processes, as the limit counts those of a user."""
    if not ROOT:
      self.skipTest('only root may become a user without processes')
    reach = pathlib.Path(swarm.PROGRAM).resolve()
    self.folder.chmod(0o755)
    user = NOBODY - os.getpid() % 1000 - len(self.processes)
    folder = self.folder / name
    folder.mkdir()
    os.chown(folder, user, user)
    if subprocess.run([reach, '--version'], user=user, capture_output=True).returncode != 0:
      self.skipTest('another user may not run the program from here')
    return self.agent(name, *arguments, limits={resource.RLIMIT_NPROC: limit}, user=user, working=folder)


class Limits(Limited):
  DIMENSION = 100_000  # a checkpoint of 400 kB

  def test_the_size_of_files(self):
    """A checkpoint that is larger than allowed costs the checkpoint; the remedy names limit, value and need."""
    config = self.quadratic(dimension=self.DIMENSION, every='300ms')
    agent = self.agent('a', '--config', config, limits={resource.RLIMIT_FSIZE: 300_000})
    failed = self.wait(lambda: next((e for e in agent.events('checkpoint') if 'error' in e), None), 'a failure')
    self.assertIn('ulimit -f: 300.0 kB', failed['error'])
    self.assertRegex(failed['error'], r'and 4\d\d\.\d kB are needed; raise that limit')
    steps = agent.steps()
    self.wait(lambda: agent.steps() > steps + 50, 'training to go on')
    self.assertEqual(self.interrupt(agent)[0], 4, self.logs())
    self.assertIn('is not saved', agent.log())

  def test_processor_time(self):
    """The soft limit lets it leave with its model saved, before the hard one ends it."""
    agent = self.agent(
      'a',
      *('--config', self.quadratic()),
      limits={resource.RLIMIT_CPU: (2, 60)},
      environment={'STARLING_TEST_COMPUTE_MS': '0'},
    )
    self.joined(agent)
    self.assertEqual(self.wait_end(agent, 240), 0, self.logs())
    self.assertIn('ulimit -t: 2 s', agent.log())
    self.assertEqual(agent.last('finish')['steps'], agent.last('checkpoint')['steps'])

  def test_descriptors(self):
    """Whatever the limit: it works, or the limit, its value and the need are said; nothing aborts."""
    config = self.quadratic()
    for count in (8, 12, 16, 20, 24, 32, 48, 64, 80, 100, 128, 200):
      with self.subTest(count=count):
        agent = self.agent(f'a{count}', '--config', config, limits={resource.RLIMIT_NOFILE: count})
        self.wait(lambda: not agent.running() or len(agent.events('checkpoint')) >= 2, f'{agent.name} to save or end')
        if agent.running():
          self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
          self.assertGreaterEqual(count, 64)
          continue
        self.assertEqual(agent.child.returncode, 1, self.logs())
        self.assertLess(count, 128)
        if count >= 16:  # below it, libraries cannot be loaded
          for part in ('more files and sockets are needed', f'ulimit -n: {count}', 'raise that limit'):
            self.assertIn(part, agent.log())

  def test_address_space(self):
    config = self.quadratic(dimension=60_000_000)  # some copies of 240 MB
    agent = self.agent('a', '--config', config, limits={resource.RLIMIT_AS: 900 * MIB})
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    for part in ('out of memory', 'ulimit -v: 943.7 MB', 'raise that limit'):
      self.assertIn(part, agent.log())

  def test_threads(self):
    config = self.quadratic()
    for limit in (1, 2, 4):
      agent = self.of_another_user(f'a{limit}', limit, '--config', config)
      self.assertEqual(self.wait_end(agent), 1, self.logs())
      self.assertIn('no thread can be made', agent.log())
      self.assertIn(f'ulimit -u: {limit}', agent.log())


MODEL = """
swarm:
  model: {kind: %s, input: [1, 28, 28], classes: 10, %s}
  batch: 64
  stop_after: %d
agent: {evaluate_every: 200ms, threads: %d, data: {path: generated}}
"""


class LimitsOfModels(Limited):
  """LibTorch, oneDNN and libgomp each meet the limit in a place of their own, and have words of their own for it."""

  def config(self, kind, sizes, steps=20, threads=2):
    path = self.folder / f'{kind}.yaml'
    path.write_text(MODEL % (kind, sizes, steps, threads))
    return path

  def assert_said(self, agent, *said):
    """It ended as it is documented to: with its work done, or with the limit and the remedy."""
    status = self.wait_end(agent, 120)
    if status == 0:
      return True
    self.assertEqual(status, 1, agent.log())
    last = agent.log().splitlines()[-1]
    for part in ('starling: ', *said):
      self.assertIn(part, last, agent.log())
    return False

  def address_spaces(self, config, limits):
    done = []
    for limit in limits:
      with self.subTest(MiB=limit):
        agent = self.agent(f'{config.stem}{limit}', '--config', config, limits={resource.RLIMIT_AS: limit * MIB})
        status = self.wait_end(agent, 120)
        if status == 127:  # the loader of the system found no room for the libraries
          self.assertIn('error while loading shared libraries', agent.log())
        else:
          done.append(self.assert_said(agent, 'ulimit -v', 'raise '))
    return done

  def test_address_space_of_a_perceptron(self):
    done = self.address_spaces(self.config('mlp', 'hidden: [4096, 4096]'), (398, 414, 510, 600, 860))
    self.assertIn(False, done)

  def test_address_space_of_a_convolution(self):
    done = self.address_spaces(self.config('cnn', 'channels: 8'), (560, 600, 640))
    self.assertIn(False, done)

  def test_threads_of_a_step(self):
    """The start has found room for these threads, and others took it since: each thread that computes has its own."""
    config = self.config('mlp', 'hidden: [1024]', threads=16)
    done = [
      self.assert_said(
        self.of_another_user(f'n{limit}', limit, '--config', config), 'no thread can be made', f'ulimit -u: {limit})'
      )
      for limit in range(16, 80, 21)
    ]
    self.assertEqual({True, False}, set(done))

  def test_threads_of_a_cgroup(self):
    group = pathlib.Path('/sys/fs/cgroup')
    group = (group / 'pids' if (group / 'pids').is_dir() else group) / f'starling-test-{os.getpid()}'
    try:
      group.mkdir()
      self.addCleanup(group.rmdir)
      (group / 'pids.max').write_text('20')
    except OSError as error:
      self.skipTest(f'may not limit a cgroup here: {error}')
    wrapper = ('sh', '-c', f'echo $$ >{group}/cgroup.procs && exec "$@"', 'sh')
    agent = self.agent('a', '--config', self.config('mlp', 'hidden: [64]', threads=16), wrapper=wrapper)
    self.assertFalse(self.assert_said(agent, 'no thread can be made', 'pids.max of the cgroup: 20', 'raise it'))


if __name__ == '__main__':
  swarm.main()
