"""What a person sees of a run: the line of progress and the table of `starling status`, in a pseudo-terminal and
without one."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import swarm

SCREEN_COLUMNS, SCREEN_ROWS = 80, 24


class Screen:
  """A process in a pseudo-terminal, and what stands on its screen: rows of text, as far as this program's codes go.

  jobs: the terminal is its session's own, so that the process can be a shell with jobs.
  """

  def __init__(self, arguments, columns=SCREEN_COLUMNS, term='xterm', program=swarm.PROGRAM, jobs=False):
    self.output = b''
    self.keyboard, inner = outer, inner = pty.openpty()

    def prepare():
      if jobs:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
      swarm.die_with_parent()

    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack('HHHH', SCREEN_ROWS, columns, 0, 0))
    self.child = subprocess.Popen(
      [program] + [str(argument) for argument in arguments],
      stdin=inner,
      stdout=inner,
      stderr=inner,
      start_new_session=True,
      preexec_fn=prepare,
      env={**swarm.PACE, **os.environ, 'TERM': term},
    )
    os.close(inner)
    self.reader = threading.Thread(target=self.read, args=[outer], daemon=True)
    self.reader.start()

  def type(self, text):
    os.write(self.keyboard, text.encode())

  def read(self, outer):
    while True:
      try:
        part = os.read(outer, 65536)
      except OSError:
        part = b''
      if not part:
        os.close(outer)
        return
      self.output += part

  def rows(self):
    """The rows so far; the cursor is in the last one."""
    rows, row = [''], 0
    for code in re.split(r'(\x1b\[\d*[A-Za-z]|\r|\n)', self.output.decode(errors='replace')):
      up = re.fullmatch(r'\x1b\[(\d+)A', code)
      if code == '\n':
        row += 1
        if row == len(rows):
          rows.append('')
      elif up:
        row -= int(up[1])
        assert row >= 0, 'the cursor left the screen'
      elif code == '\x1b[J':
        rows[row:] = ['']
      elif code and code[0] not in '\x1b\r':
        rows[row] += code
    return rows

  def row(self, index):
    """One of them; empty: there are not so many."""
    rows = self.rows()
    return rows[index] if -len(rows) <= index < len(rows) else ''

  def kill(self):
    if self.child.poll() is None:
      os.killpg(self.child.pid, signal.SIGKILL)
    self.child.wait()
    self.reader.join(10)

  name = 'terminal'

  def running(self):
    return self.child.poll() is None

  def log(self):
    return '\n'.join(self.rows())


PROGRESS = r'step \d+/50000 · \d+ % · \d+ steps/s · ETA [\d.]+ (s|min|h)( \d+ min)? · loss \S+ · 0 peers'


class Progress(swarm.Case):
  def agent_arguments(self, stop_after=50000, *more):
    listen = f'127.0.0.1:{swarm.free_port_pair()}'
    state = self.folder / 'terminal'
    fixed = ['agent', '--config', self.quadratic(), '--listen', listen, '--state', state]
    return [*fixed, '--set', f'swarm.stop_after={stop_after}', *more]

  def screen(self, *arguments, **options):
    screen = Screen(arguments, **options)
    self.processes.append(screen)
    return screen

  def test_is_one_line_that_renews_itself_below_the_log(self):
    screen = self.screen(*self.agent_arguments(), columns=140)
    self.wait(lambda: re.fullmatch(PROGRESS, screen.row(-2)), 'a line of progress')
    first = screen.row(-2)
    self.wait(lambda: screen.row(-2) != first, 'another one')
    self.assertEqual(sum(row.startswith('step ') for row in screen.rows()), 1, screen.log())
    self.assertEqual(screen.rows()[-1], '', 'the cursor is on a fresh line')
    self.assertNotIn('loss 0.000', screen.log())
    os.killpg(screen.child.pid, signal.SIGINT)
    self.assertEqual(self.wait_end(screen), 0)
    rows = screen.rows()
    self.assertEqual(rows[-1], '')
    self.assertIn('leaving at step', rows[-2])
    self.assertEqual(sum(row.startswith('step ') for row in rows), 1, screen.log())

  def test_is_cut_by_a_narrow_terminal(self):
    screen = self.screen(*self.agent_arguments(), columns=30)
    self.wait(lambda: screen.row(-2).startswith('step '), 'a line of progress')
    self.wait(lambda: len(screen.row(-2)) == 30, 'a line that is cut')

  def test_without_a_terminal_it_is_logged_at_the_first_step_and_at_the_end(self):
    words = [str(word) for word in self.agent_arguments(300)]
    piped = subprocess.run(
      [swarm.PROGRAM, *words], capture_output=True, text=True, timeout=60, env={**swarm.PACE, **os.environ}
    )
    dumb = self.screen(*words, '--state', self.folder / 'dumb', term='dumb', columns=40)
    self.assertEqual(self.wait_end(dumb), 0)
    for output in piped.stderr, dumb.log():
      self.assertNotIn('\x1b[J', output)
      self.assertEqual(len(re.findall(r'info step \d+/300 ', output)), 2, output)
      self.assertRegex(output, r'step 300/300 · 100 % · ')
      self.assertNotIn('round ', output)

  def test_divergence_and_threads_are_said_with_the_remedy(self):
    config = self.quadratic(learning_rate=2.5)
    agent = self.agent('a', '--config', config, '--set', 'swarm.stop_after=120', '--threads', '1000')
    self.wait_end(agent)
    self.assertRegex(agent.log(), r'warning training diverges: .*lower swarm\.optimizer\.learning_rate \(now 2\.5\)')
    self.assertRegex(agent.log(), r'warning --threads 1000 on \d+ processors?: .*leave --threads out')


class Status(swarm.Case):
  def status(self, *arguments, status=0):
    run = subprocess.run(
      [swarm.PROGRAM, 'status', *[str(argument) for argument in arguments]],
      capture_output=True,
      text=True,
      timeout=60,
      cwd=self.folder,
    )
    self.assertEqual(run.returncode, status, run.stdout + run.stderr + self.logs())
    return run.stdout if status == 0 else run.stderr

  def view_with_exchanges(self, place):
    view = json.loads(self.status(*place, '--once', '--json'))
    return view if all(member['done'] for member in view['members']) else None

  def test_any_agent_registry_or_state_folder_shows_the_swarm(self):
    port, agents = self.swarm(3, self.quadratic())
    for place in [agents[0].address()], [f'127.0.0.1:{port}'], ['--state', agents[1].state]:
      # A record is told anew once a second, so it may lack the first exchanges.
      view = self.wait(lambda place=place: self.view_with_exchanges(place), 'records with exchanges')
      self.assertEqual(view['swarm'], 'e2e')
      members = {member['name']: member for member in view['members']}
      self.assertEqual(sorted(members), ['a', 'b', 'c'], 'no registry and no reader')
      for agent in agents:
        member = members[agent.name]
        self.assertEqual(member['endpoint'], agent.address())
        self.assertEqual(member['state'], 'training')
        self.assertLessEqual(member['failed'], agent.last('status')['exchanges']['failed'])
        self.assertRegex(member['version'], r'^\d+\.\d+\.\d+$')
    lines = self.status('--state', agents[1].state, '--once').splitlines()
    self.assertRegex(lines[0], r'^swarm e2e \([0-9a-f]{16}\): 3 agents, step \d+$')
    self.assertEqual(lines[1].split()[:4], ['agent', 'state', 'step', 'behind'])
    self.assertEqual(sorted(line.split()[0] for line in lines[2:]), ['a', 'b', 'c'])
    for agent in agents:
      self.assertEqual(agent.last('status')['peers'], 2)
      self.assertEqual(agent.last('status')['joins']['refused'], 0)
    self.assertNotIn('not let in', agents[0].log())

  def test_the_table_renews_itself_and_shows_who_dies(self):
    _, agents = self.swarm(3, self.quadratic())
    screen = Screen(['status', agents[0].address()])
    self.processes.append(screen)
    self.wait(lambda: len(screen.rows()) == 6, 'five rows and the cursor below')
    before = screen.rows()
    self.wait(lambda: screen.rows()[2:] != before[2:], 'another table')
    self.assertEqual(len(screen.rows()), 6, screen.log())
    agents[2].kill()
    self.wait(lambda: re.match(r'c +gone .*given up', screen.row(2)), 'the dead agent on top')
    self.assertLessEqual(max(len(row) for row in screen.rows()), SCREEN_COLUMNS)
    os.killpg(screen.child.pid, signal.SIGINT)
    self.wait_end(screen)
    self.assertEqual(screen.rows()[-1].removeprefix('^C'), '')

  def test_says_what_is_wrong_with_an_address(self):
    port = swarm.free_port_pair()
    nobody = self.status(f'127.0.0.1:{port}', '--once', status=1)
    self.assertIn(f'nobody answers at 127.0.0.1:{port}', nobody)
    self.assertIn('--listen', nobody)
    self.assertIn('getent hosts no.such.invalid', self.status('no.such.invalid:7410', status=1))
    self.assertIn('as HOST:PORT', self.status('127.0.0.1', status=1))
    self.assertIn('there is no state folder', self.status(status=1))
    config = self.quadratic()
    registry = self.registry('registry', port)
    self.wait_log(registry, 'listens on')
    self.assertIn('knows no swarm yet', self.status(f'127.0.0.1:{port}', status=1))
    first = self.agent('a', '--config', config, '--bootstrap', f'127.0.0.1:{port}')
    self.joined(first)
    self.assertIn('swarm e2e', self.status(f'127.0.0.1:{port}'))
    other = self.folder / 'other.yaml'
    other.write_text(config.read_text().replace('name: e2e', 'name: other'))
    second = self.agent('b', '--config', other, '--bootstrap', f'127.0.0.1:{port}')
    self.joined(second)
    listed = self.status(f'127.0.0.1:{port}', status=1)
    self.assertIn("'other'", listed)
    ids = dict(re.findall(r"([0-9a-f]{16})  '(\w+)'", listed))
    chosen = next(number for number, name in ids.items() if name == 'other')
    self.assertIn('swarm other', self.status(f'127.0.0.1:{port}', '--swarm', chosen))
    self.assertIn('another swarm', self.status(first.address(), '--swarm', chosen, status=1))
    self.interrupt(first)
    self.assertIn('no agent runs with the state folder', self.status('--state', first.state, status=1))


if __name__ == '__main__':
  swarm.main()
