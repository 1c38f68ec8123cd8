"""The swarm command: digits divided by label, one agent killed, one joining later, and the report of it."""

import json
import os
import re
import signal
import subprocess
import time

import swarm

DIGITS = os.environ.get('STARLING_DIGITS', '')
REAL = os.path.isdir(DIGITS)
CONFIG = swarm.ROOT / 'configs' / 'digits.yaml'


class Threads(swarm.Case):
  def test_who_chooses_their_number_by_trial_says_so(self):
    config = ['--config', CONFIG, '--set', 'agent.data.path=generated', '--set', 'swarm.stop_after=1000000']
    chosen, fixed = self.agent('chosen', *config, '--threads', 0), self.agent('fixed', *config, '--threads', 1)
    for agent in chosen, fixed:
      self.wait(lambda: (agent.last('status', phase='training') or {}).get('steps', 0) > 0, 'steps')
    self.wait_log(chosen, 'for a step, found by trial', 'fixes it')
    self.assertGreaterEqual(chosen.last('status')['threads'], 1)
    self.assertEqual(fixed.last('status')['threads'], 0)
    self.assertNotIn('found by trial', fixed.log())


class SwarmCommand(swarm.Case):
  def run_swarm(self, *arguments):
    out = self.folder / 'out'
    data = DIGITS if REAL else 'generated'
    process = self.start(
      'command', 'swarm', '--config', CONFIG, '--out', out, '--set', f'agent.data.path={data}', *arguments
    )
    return process, out

  def test_learns_with_a_kill_and_a_join(self):
    process, out = self.run_swarm(
      '--agents', 4, '--steps', 800, '--kill', '2@step180', '--join', '@step250', '--no-baselines'
    )
    self.assertEqual(self.wait_end(process, 150), 0, self.logs())
    report = json.loads((out / 'report.json').read_text())
    self.assertEqual(sorted(report), ['agents', 'alone', 'central', 'distance', 'seconds'])
    self.assertEqual([agent['name'] for agent in report['agents']], [f'agent-{i}' for i in range(5)])
    states = [agent['state'] for agent in report['agents']]
    self.assertEqual(states, ['finished', 'finished', 'killed', 'finished', 'finished'])
    killed, newcomer = report['agents'][2], report['agents'][4]
    self.assertEqual(newcomer['classes'], killed['classes'])
    self.assertGreater(newcomer['joined_at_s'], 0)
    goal = 0.93 if REAL else 0.9
    for agent in report['agents']:
      self.assertEqual(
        sorted(agent),
        [
          'accuracy',
          'bytes_received',
          'bytes_sent',
          'bytes_sent_a_round',
          'bytes_sent_a_step',
          'bytes_sent_last_round',
          'classes',
          'exchanges',
          'joined_at_s',
          'name',
          'pairs',
          'peer',
          'proposals_refused',
          'settled',
          'spread',
          'state',
          'steps',
          'swarm_distance',
        ],
      )
      self.assertRegex(agent['peer'], '^[0-9a-f]{64}$')
      self.assertIn(len(agent['classes']), (2, 3))
      self.assertGreater(agent['exchanges']['done'], 0)
      self.assertGreater(agent['bytes_sent'], 0)
      self.assertGreater(agent['bytes_sent_a_round'], 0)
      self.assertLess(agent['bytes_sent_a_round'], agent['bytes_sent'])
      if agent['state'] == 'finished':
        self.assertGreaterEqual(agent['accuracy'], goal, f'{agent["name"]}: {report}')
      for key in 'spread', 'swarm_distance':  # pairs leave models apart; None: not known yet
        self.assertNotEqual(agent[key], 0, f'{agent["name"]}: {report}')
    self.assertLess(report['distance'], 0.05)
    self.look_at_page(out)
    self.look_at_table(process.log(), report)

  def test_the_exchanges_in_rounds_learn_through_a_kill_and_a_join(self):
    for kind, graph in (('group', []), ('neighborhood', ['--set', 'swarm.topology.kind=ring'])):
      with self.subTest(kind):
        process, out = self.run_swarm(
          '--agents',
          4,
          '--steps',
          500,
          '--kill',
          '1@step100',
          '--join',
          '@step160',
          '--no-baselines',
          '--set',
          f'swarm.exchange.kind={kind}',
          '--set',
          'swarm.exchange.codec=fp32',
          '--set',
          'swarm.exchange.overlap=off',
          *graph,
        )
        self.assertEqual(self.wait_end(process, 200), 0, self.logs())
        report = json.loads((out / 'report.json').read_text())
        for agent in report['agents']:
          if agent['state'] == 'finished':
            self.assertGreaterEqual(agent['accuracy'], 0.8, f'{agent["name"]}: {report}')
            self.assertGreater(agent['exchanges']['done'], 50)

  def test_an_agent_stands_still_for_a_while(self):
    out = self.folder / 'out'
    config = self.quadratic()
    process = self.start(
      'command',
      'swarm',
      '--config',
      config,
      '--out',
      out,
      '--agents',
      3,
      '--steps',
      400,
      '--pause',
      '1@step60+1.5',
      '--kill',
      '2@step99999',
      '--no-baselines',
      '--details',
    )
    self.assertEqual(self.wait_end(process, 100), 0, self.logs())
    log = process.log()
    paused = re.search(r'([\d.]+) s  agent-1 stands still \(SIGSTOP\)', log)
    resumed = re.search(r'([\d.]+) s  agent-1 goes on \(SIGCONT\)', log)
    self.assertTrue(paused and resumed, log)
    self.assertGreaterEqual(float(resumed[1]) - float(paused[1]), 1.4)
    self.assertIn('the kill planned for step 99999 did not happen', log)
    self.assertRegex(log, r'\neach agent +agent-0 +agent-1 +agent-2\nlocal steps ')
    self.assertRegex(log, r'\npair exchanges +agent-0 +agent-1 +agent-2\nexchanges per local step ')
    report = json.loads((out / 'report.json').read_text())
    self.assertEqual([agent['state'] for agent in report['agents']], ['finished'] * 3, log)

  def test_a_pause_ends_with_the_run(self):
    process = self.start(
      'command',
      'swarm',
      '--config',
      self.quadratic(),
      '--out',
      self.folder / 'out',
      '--agents',
      3,
      '--steps',
      200,
      '--pause',
      '1@step60+3600',
      '--no-baselines',
    )
    self.assertEqual(self.wait_end(process), 0, self.logs())
    self.assertRegex(process.log(), r'agent-1 stands still \(SIGSTOP\) until 36\d\d')
    self.assertIn('agent-1 goes on (SIGCONT): all others have ended', process.log())

  def test_a_swarm_that_was_killed_has_failed(self):
    for command in ('swarm', 'simulate'):
      with self.subTest(command):
        process = self.start(
          command,
          command,
          '--config',
          self.quadratic(),
          '--out',
          self.folder / f'{command}.out',
          '--agents',
          2,
          '--steps',
          4000,
          '--kill',
          '0@0.5',
          '--kill',
          '0@0.7',
          '--kill',
          '1@1',
        )
        self.assertEqual(self.wait_end(process), 1, self.logs())
        self.assertIn('every agent was killed', process.log())
        self.assertIn('nothing to kill', process.log())

  def test_an_interrupt_at_any_moment_of_the_start_ends_without_a_failure(self):
    begun = [
      lambda out: (out / 'bootstrap').exists(),
      lambda out: (out / 'agent-0' / 'log').exists(),
      lambda out: (out / 'agent-1' / 'log').exists() and 'listens' in (out / 'agent-1' / 'log').read_text(),
    ]
    for number, condition in enumerate(begun):
      with self.subTest(number):
        out = self.folder / f'out-{number}'  # of its own: what another left would be taken for this one's start
        process = self.start(
          f'command-{number}',
          'swarm',
          '--config',
          CONFIG,
          '--out',
          out,
          '--agents',
          2,
          '--set',
          'agent.data.path=generated',
        )
        self.wait(lambda out=out, condition=condition: condition(out), 'the start')
        self.assertEqual(self.interrupt(process)[0], 0, self.logs())
        self.assertIn('interrupted', process.log())

  def look_at_table(self, log, report):
    """One line for each agent below two of headings, then the summary: no legend, no internals."""
    found = re.search(
      r'\n +exchanges\nagent +data +accuracy +alone +central +done +failed +sent\n((?:agent-.*\n)+)\n', log
    )
    self.assertTrue(found, log)
    rows = found[1].splitlines()
    self.assertEqual([row.split()[0] for row in rows], [agent['name'] for agent in report['agents']])
    self.assertEqual([re.split(r'  +', row)[-1] for row in rows if 'B  ' in row], ['killed', 'joined'], log)
    self.assertTrue(log[found.end() :].startswith('4 agents, and 1 that joined later,'), log)
    self.assertNotIn('exchanges per local step', log)
    killed = re.search(r'([\d.]+) s  agent-2 killed', log)
    self.assertIn(f'agent-2 was killed at {killed[1]} s', log)

  def look_at_page(self, out):
    page = (out / 'report.html').read_text()
    outside = [
      address for address in re.findall(r'https?://[^"\'\s<)]+', page) if address != 'http://www.w3.org/2000/svg'
    ]
    self.assertEqual(outside, [])
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    self.assertEqual([agent['newcomer'] for agent in data['agents']], [False] * 4 + [True])
    self.assertGreater(data['agents'][2]['killed_at_s'], 0)
    self.assertIn('agent-2 was killed', data['summary'])
    for agent in data['agents']:
      self.assertNotIn(0, [value for _, _, value in agent['curves']['spread']], agent['name'])
      self.assertGreater(len(agent['curves']['loss']), 0, agent['name'])
      self.assertGreater(sum(agent['partners']), 0, agent['name'])
      self.assertGreaterEqual(agent['completed'], sum(agent['partners']), agent['name'])
    counts = [agent['partners'] for agent in data['agents']]
    self.assertEqual(counts, [list(column) for column in zip(*counts)], 'a pair has one count')
    killed = [moment['t'] for moment in data['moments'] if moment['what'] == 'killed']
    self.assertEqual(killed, [data['agents'][2]['killed_at_s']])

  def test_interrupt_ends_all_and_still_reports(self):
    process, out = self.run_swarm('--agents', 2, '--steps', 1000000)
    self.wait(lambda: 'have joined' in process.log(), 'the agents to join')
    agents = [line.split()[1] for line in self.child_lines(process)]
    self.assertEqual(len(agents), 3)  # the registry is one of them
    status, seconds = self.interrupt(process)
    self.assertEqual(status, 0, self.logs())
    self.assertLess(seconds, 4)
    report = json.loads((out / 'report.json').read_text())
    self.assertEqual([agent['state'] for agent in report['agents']], ['finished', 'finished'])
    self.assertEqual(report['alone'], [])

  def test_children_do_not_outlive_a_killed_parent(self):
    process, _ = self.run_swarm('--agents', 2, '--steps', 1000000)
    self.wait(lambda: 'have joined' in process.log(), 'the agents to join')
    children = [int(line.split()[0]) for line in self.child_lines(process)]
    self.assertEqual(len(children), 3)
    process.child.send_signal(signal.SIGKILL)
    process.child.wait()
    self.wait(lambda: not any(running(pid) for pid in children), 'the end of the agents', 5)

  def child_lines(self, process):
    """'PID NAME' of each child."""
    lines = []
    for entry in os.listdir('/proc'):
      if entry.isdigit() and parent_of(entry) == process.child.pid:
        lines.append(f'{entry} {name_of(entry)}')
    return lines

  def test_refuses_a_folder_of_other_things(self):
    out = self.folder / 'out'
    out.mkdir()
    (out / 'thesis.txt').write_text('three years of work')
    process, _ = self.run_swarm('--agents', 2)
    self.assertEqual(self.wait_end(process), 1)
    self.assertIn('holds other things than an earlier swarm', process.log())
    self.assertIn('--out', process.log())
    self.assertEqual((out / 'thesis.txt').read_text(), 'three years of work')

  def test_a_wrong_start_shows_the_reason(self):
    began = time.monotonic()
    process, _ = self.run_swarm('--agents', 2, '--set', f'agent.data.test_path={self.folder}/missing')
    self.assertEqual(self.wait_end(process), 1, self.logs())
    self.assertLess(time.monotonic() - began, 30)
    self.assertIn(f'{self.folder}/missing', process.log())


class Simulate(swarm.Case):
  def test_tells_on_a_terminal_how_far_it_is(self):
    leader, follower = os.openpty()
    subprocess.run(
      [
        swarm.PROGRAM,
        'simulate',
        '--config',
        self.quadratic(),
        '--out',
        self.folder / 'out',
        '--agents',
        '3',
        '--steps',
        '100',
      ],
      stdout=subprocess.DEVNULL,
      stderr=follower,
      check=True,
      timeout=swarm.PATIENCE,
    )
    os.close(follower)
    said = os.read(leader, 1 << 16).decode()
    os.close(leader)
    lines = [line.removeprefix('\x1b[K') for line in said.split('\r') if line]
    self.assertRegex(lines[0], r'^ +\d+ s  step \d+ of 100, \d\.\d\d s of virtual time$')
    self.assertEqual(lines[-1], '', 'the line is gone in the end')
    self.assertLess(max(map(len, lines)), 80)


def status_fields(pid):
  try:
    with open(f'/proc/{pid}/stat') as file:
      text = file.read()
  except OSError:
    return None
  name, rest = text[text.index('(') + 1 : text.rindex(')')], text[text.rindex(')') + 2 :].split()
  return name, rest[0], int(rest[1])


def parent_of(pid):
  fields = status_fields(pid)
  return fields[2] if fields else 0


def name_of(pid):
  fields = status_fields(pid)
  return fields[0] if fields else ''


def running(pid):
  fields = status_fields(pid)
  return fields is not None and fields[1] != 'Z'


if __name__ == '__main__':
  swarm.main()
