"""Readers that stand still, come back or go away, and standard streams that are closed: no agent minds."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import termios

import status_test
import swarm

PIPE_BYTES = 4096
F_SETPIPE_SZ = 1031


class StuckPipe:
  """A pipe that is nearly full, and that nobody reads until it is asked to."""

  def __init__(self):
    self.reader, self.writer = os.pipe()
    fcntl.fcntl(self.writer, F_SETPIPE_SZ, PIPE_BYTES)
    os.write(self.writer, b'x' * (PIPE_BYTES - 300) + b'\n')

  def close(self):
    for end in (self.reader, self.writer):
      os.close(end)

  def read_until(self, pattern, seconds=swarm.PATIENCE):
    """What came until the pattern matched, or all that came in that time."""
    text = ''
    while not re.search(pattern, text):
      if not select.select([self.reader], [], [], seconds)[0]:
        break
      text += os.read(self.reader, 65536).decode(errors='replace')
    return text


class Readers(swarm.Case):
  def stuck(self):
    pipe = StuckPipe()
    self.addCleanup(pipe.close)
    return pipe

  def on_streams(self, name, streams, *arguments):
    """An agent whose stdout and stderr are what `streams` says."""
    process = self.agent(name, *arguments, streams=streams)
    self.joined(process)
    return process

  def goes_on(self, agent, steps=300):
    begun = agent.steps()
    self.wait(lambda: agent.steps() > begun + steps, f'steps of {agent.name}')

  def test_a_reader_of_the_log_that_stands_still_stops_nothing_and_hears_what_is_missing(self):
    config = self.quadratic()
    first = self.agent('a', '--config', config)
    self.joined(first)
    pipe = self.stuck()
    # A debug line a second, and one for each exchange, fill the queue of a MiB slowly: the pipe is what fills here.
    agent = self.on_streams('b', {'stderr': pipe.writer}, '--bootstrap', first.address(), '--log-level', 'debug')
    self.goes_on(agent)
    done = agent.done()
    self.wait(lambda: agent.done() > done + 20, 'exchanges')
    self.assertIsNone(first.last('member', peer=agent.peer(), change='died'))
    self.assertIn('listens on', pipe.read_until('round \\d+'))

  def test_a_second_signal_ends_it_though_nobody_reads(self):
    pipe = self.stuck()
    step = {'environment': {'STARLING_TEST_COMPUTE_MS': '8000'}}  # which the first signal lets end
    agent = self.agent('a', '--config', self.quadratic(), streams={'stderr': pipe.writer}, **step)
    self.joined(agent)
    swarm.pause(1)  # it is in its first step
    agent.send(signal.SIGTERM)
    swarm.pause(0.7)
    self.assertTrue(agent.running(), 'it has a step to finish')
    agent.send(signal.SIGTERM)
    self.assertEqual(self.wait_end(agent, 4), 130, self.logs())

  def test_a_stopped_terminal_stops_nothing(self):
    """Ctrl-S, with the line of progress on it; then Ctrl-Q."""
    ours, theirs = pty.openpty()
    self.addCleanup(os.close, ours)
    self.addCleanup(os.close, theirs)
    agent = self.on_streams(
      'a', {'stdout': theirs, 'stderr': theirs}, '--config', self.quadratic(), '--log-level', 'debug'
    )
    termios.tcflow(theirs, termios.TCOOFF)
    self.goes_on(agent)
    termios.tcflow(theirs, termios.TCOON)
    text = ''
    while 'step' not in text and select.select([ours], [], [], swarm.PATIENCE)[0]:
      text += os.read(ours, 65536).decode(errors='replace')
    self.assertIn('step', text)
    self.goes_on(agent, 20)
    self.assertEqual(self.interrupt(agent)[0], 0)

  def test_a_terminal_that_is_gone_stops_nothing(self):
    ours, theirs = pty.openpty()
    agent = self.on_streams('a', {'stdout': theirs, 'stderr': theirs}, '--config', self.quadratic())
    os.close(ours)
    os.close(theirs)
    self.goes_on(agent)
    self.assertEqual(self.interrupt(agent)[0], 0)

  def test_a_dead_reader_stops_nothing(self):
    reader, writer = os.pipe()
    agent = self.on_streams('a', {'stderr': writer}, '--config', self.quadratic(), '--log-level', 'debug')
    os.close(reader)
    os.close(writer)
    self.goes_on(agent)
    self.assertEqual(self.interrupt(agent)[0], 0)

  def test_a_registry_answers_though_nobody_reads_its_log(self):
    port = swarm.free_port_pair()
    pipe = self.stuck()
    os.write(pipe.writer, b'x' * 250)
    self.start(
      'registry',
      *('bootstrap', '--listen', f'127.0.0.1:{port}', '--state', self.folder / 'registry' / 'state'),
      streams={'stderr': pipe.writer},
    )
    for name in 'ab':
      self.joined(self.agent(name, '--config', self.quadratic(), '--bootstrap', f'127.0.0.1:{port}'))

  def test_the_table_of_a_swarm_that_nobody_reads_stops_no_agent(self):
    pipe = self.stuck()
    config = self.quadratic()
    run = self.start(
      'table',
      *('swarm', '--config', config, '--agents', '2', '--out', self.folder / 'out', '--set', 'swarm.stop_after=400'),
      streams={'stdout': pipe.writer},
    )
    self.wait(lambda: (self.folder / 'out' / 'report.html').exists(), 'the report of a swarm that nobody watches')
    text = pipe.read_until('report: ')
    self.assertIn('report: ', text)
    self.assertEqual(self.wait_end(run), 0, self.logs())


class Streams(swarm.Case):
  def test_closed_streams_get_no_file_of_ours(self):
    """In every combination; also for a registry, whose lock is the first file that it opens."""
    config = self.quadratic()
    for number in range(1, 8):
      closed = [fd for fd in range(3) if number & 1 << fd]
      with self.subTest(closed=closed):
        agent = self.agent(f'a{number}', '--config', config, closed=closed)
        registry = self.start(
          f'r{number}',
          *('bootstrap', '--listen', f'127.0.0.1:{swarm.free_port_pair()}'),
          *('--state', self.folder / f'r{number}' / 'state'),
          closed=closed,
        )
        self.joined(agent)
        self.wait(lambda: (registry.state / 'address').exists(), 'the registry to run')
        for process in (agent, registry):
          for fd in closed:
            self.assertEqual(os.readlink(f'/proc/{process.child.pid}/fd/{fd}'), '/dev/null')
          self.assertEqual(self.interrupt(process)[0], 0, self.logs())
          self.assertRegex((process.state / 'lock').read_text(), r'\A\d+\n\Z')
        for line in agent.metrics_path.read_text().splitlines():
          json.loads(line)

  def test_a_full_stdout_is_an_error_and_a_reader_that_has_enough_is_none(self):
    for command in (['--help'], ['init', '--help']):
      with open('/dev/full', 'w') as full:
        done = subprocess.run([swarm.PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True)
      self.assertEqual(done.returncode, 1, command)
      self.assertIn('No space left', done.stderr)
      self.assertIn('make room', done.stderr)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([swarm.PROGRAM, '--help'], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    self.assertEqual((done.returncode, done.stderr), (0, ''))


class Signals(swarm.Case):
  def test_a_signal_before_its_handlers_stand_is_kept(self):
    """Sent at once, and while libraries are loaded: the agent leaves as it would later."""
    config = self.quadratic()
    for delay in (0.02, 0.05, 0.1, 0.2):
      for number in (signal.SIGTERM, signal.SIGINT):
        agent = self.agent(f'a{delay}{number.name}', '--config', config)
        self.wait(lambda: self.holds(agent, number) or not agent.running(), 'the start', 5)
        swarm.pause(delay)
        agent.send(number)
        self.assertEqual(self.wait_end(agent, 20), 0, self.logs())

  def holds(self, agent, number):
    """Whether that process blocks the signal, as it does from its first moment."""
    try:
      with open(f'/proc/{agent.child.pid}/status') as status:
        mask = next(line for line in status if line.startswith('SigBlk'))
    except (OSError, StopIteration):
      return False
    return int(mask.split()[1], 16) & 1 << (number - 1) != 0

  def test_process_1_of_a_container(self):
    """It leaves when it is told to, at any moment, and keeps no zombies of others."""
    isolated = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']
    if subprocess.run([*isolated, 'true'], capture_output=True).returncode != 0:
      self.skipTest('may not make a namespace of processes here')
    config = self.quadratic()
    for begun in ('', 'state/checkpoints'):
      agent = self.agent(f'a{len(begun)}', '--config', config, wrapper=isolated)
      inner = self.wait(lambda: self.inner(agent), 'process 1')
      self.wait(lambda: (agent.folder / begun).exists() and self.inner_holds(inner), 'its start')
      os.kill(inner, signal.SIGTERM)
      self.assertEqual(self.wait_end(agent, 20), 0, self.logs())
    plain = self.start('plain', 'simulate', '--config', config, '--agents', '2', wrapper=isolated)
    inner = self.wait(lambda: self.inner(plain), 'process 1')
    self.wait(lambda: self.inner_catches(inner), 'its handler')
    os.kill(inner, signal.SIGINT)
    self.assertEqual(self.wait_end(plain, 20), 128 + signal.SIGINT, self.logs())

  def inner(self, process):
    """The process within the namespace, by its number outside."""
    try:
      with open(f'/proc/{process.child.pid}/task/{process.child.pid}/children') as children:
        found = [int(number) for number in children.read().split()]
      return found[0] if found and 'starling' in os.readlink(f'/proc/{found[0]}/exe') else None
    except OSError:
      return None

  def mask(self, pid, name):
    try:
      with open(f'/proc/{pid}/status') as status:
        return int(next(line for line in status if line.startswith(name)).split()[1], 16)
    except OSError:
      return 0

  def inner_holds(self, pid):
    return self.mask(pid, 'SigBlk') & 1 << (signal.SIGTERM - 1)

  def inner_catches(self, pid):
    return self.mask(pid, 'SigCgt') & 1 << (signal.SIGINT - 1)


class Jobs(swarm.Case):
  """An agent that a person starts from a shell, on its terminal."""

  done, events = swarm.Process.done, swarm.Process.events

  def job(self):
    """The agent, by what the kernel calls its state; empty: it has ended."""
    try:
      return pathlib.Path(f'/proc/{self.pid}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:
      return ''

  def found(self):
    """The process of the job; it would outlive the shell."""
    shell = self.shell.child.pid
    children = pathlib.Path(f'/proc/{shell}/task/{shell}/children').read_text().split()
    if children:
      self.pid = int(children[0])
      self.addCleanup(lambda: self.job() and os.kill(self.pid, signal.SIGKILL))
    return children

  def goes_on(self, exchanges=5):
    done = self.done()
    self.wait(lambda: self.done() >= done + exchanges, 'exchanges of the job')
    self.assertNotEqual(self.job(), 'T', self.shell.log())

  def stop(self):
    self.shell.type('\x1a')
    self.wait(lambda: self.job() == 'T', 'the job to stop')

  def test_one_is_stopped_and_goes_on_in_front_and_behind(self):
    port = swarm.free_port_pair()
    other = self.agent('other', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.wait_log(other, 'join with')
    self.shell = shell = status_test.Screen(
      ['--norc', '--noprofile', '--noediting', '-i'], 140, program='bash', jobs=True
    )
    self.processes.append(shell)
    self.metrics_path = self.folder / 'metrics'
    words = ['agent', '--bootstrap', f'127.0.0.1:{port}', '--listen', '127.0.0.1:0', '--state', self.folder / 'job']
    words += ['--metrics', self.metrics_path, '--set', 'agent.metrics_every=0s']
    shell.type(' '.join(map(str, [swarm.PROGRAM, *words])) + '\n')
    self.wait(self.found, 'the job')
    progress = re.compile(r'step \d+ ')
    self.wait(lambda: progress.match(shell.row(-2)), 'a line of progress')

    self.stop()
    self.wait(lambda: other.last('member', change='died'), 'the other to miss it')
    shell.type('stty tostop\n')  # a job that writes from behind is stopped, by default
    shell.type('bg\n')
    self.wait(lambda: 'continued after a stop' in shell.log(), 'the word of it')
    self.goes_on()
    shell.type('echo ready\n')
    self.wait(lambda: shell.row(-2) == 'ready' and re.fullmatch(r'bash\S+ ', shell.row(-1)), 'a prompt of its own')
    shell.type('echo what a person')  # while the line of progress would renew itself twice
    swarm.pause(2)
    shell.type(' types\n')
    self.wait(lambda: 'what a person types' in shell.rows(), 'the answer of the shell')
    prompted = [row for row in shell.rows() if re.fullmatch(r'bash\S+ echo what a person types', row)]
    self.assertEqual(len(prompted), 1, shell.log())

    shell.type('fg\n')
    self.wait(lambda: progress.match(shell.row(-2)), 'a line of progress in front')
    self.stop()
    shell.type('fg\n')
    self.goes_on()
    self.wait(lambda: progress.match(shell.row(-2)), 'a line of progress once more')
    self.assertEqual(sum('Stopped' in row for row in shell.rows()), 2, shell.log())
    shell.type('\x03')
    self.wait(lambda: not self.job() and 'leaving at step' in shell.log(), 'its end')


if __name__ == '__main__':
  swarm.main()
