"""Agents that share updates over emulated links: one is cut off for 30 s, or two from two, and nobody is told. Links
need root."""
import json
import os
import subprocess

import swarm
import updates_test

RELAY = os.environ.get('LINK_RELAY', '')
CUT_S = 30
NODES = 4
ROUND_SLACK_S = 0.2   # a deadline is noticed a little late on a busy machine


class Cut(updates_test.Agreeing):
  def setUp(self):
    super().setUp()
    self.relay = subprocess.Popen([RELAY, '--nodes', str(NODES), '--delay-ms', '5'], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = self.relay.stdout.readline()
    if not line:
      self.skipTest('no links here: ' + self.relay.stderr.read().strip())
    self.nodes = json.loads(line)['nodes']

  def tearDown(self):
    super().tearDown()
    self.relay.stdin.close()
    self.relay.wait(10)
    self.relay.stdout.close()
    self.relay.stderr.close()

  def tell(self, *commands):
    self.relay.stdin.write(''.join(command + '\n' for command in commands))
    self.relay.stdin.flush()

  def grouped(self):
    """The agents, one a node, once all hold one log."""
    flags = [word for setting in updates_test.SETTINGS for word in ('--set', setting)]
    config = self.quadratic()
    agents = []
    for i, node in enumerate(self.nodes):
      bootstrap = ['--bootstrap', f'{self.nodes[0]["address"]}:7400'] if i > 0 else []
      folder = self.folder / f'agent-{i}'
      agent = swarm.Process(folder, [f'--net={node["namespace"]}', swarm.PROGRAM, 'agent', '--name', f'agent-{i}',
                                     '--state', folder / 'state', '--metrics', folder / 'metrics.jsonl', '--set',
                                     'agent.metrics_every=0s', '--listen',
                                     f'{node["address"]}:7400', '--config', config, *bootstrap, *flags],
                            program='nsenter')
      self.processes.append(agent)
      agents.append(agent)
    for agent in agents:
      self.joined(agent)
    self.wait(lambda: all(agent.done() >= 3 for agent in agents), 'rounds of all agents')
    self.agree_soon(agents, 'one log')
    return agents

  def test_entries_go_on_without_one_that_is_cut_off(self):
    agents = self.grouped()
    apart, others = agents[3], agents[:3]
    began = self.now(others)
    self.tell('cut 3')
    swarm.pause(CUT_S)
    for agent in others:
      gap = self.longest_gap(agent, began)
      self.assertLess(gap, updates_test.ROUND_S + 2 * updates_test.DEADLINE_S + updates_test.SLACK_S, agent.name)
    self.assertNotEqual(others[0].last('status')['log_heads'], apart.last('status')['log_heads'])
    self.tell('heal 3')
    self.agree_soon(agents, 'one log of all after the heal')
    self.assert_all_run(agents)

  def test_two_against_two_make_no_entry_until_the_views_follow(self):
    agents = self.grouped()
    left, right = agents[:2], agents[2:]
    began = self.now(agents)
    self.tell('side 2 1', 'side 3 1')
    swarm.pause(CUT_S)
    for agent in agents:
      rounds = [event for event in agent.events('exchange') if event['t'] > began]
      longest_s = max(event['ms'] for event in rounds) / 1e3
      self.assertLess(longest_s, 2 * updates_test.DEADLINE_S + ROUND_SLACK_S, agent.name)
      statuses = [event for event in agent.events('status') if event['t'] > began]
      alone = [event['t'] for event in statuses if event['peers'] <= 1]
      self.assertTrue(alone, f'the view of {agent.name} followed' + self.logs())
      # What was under way when the cut began may make an entry yet. A status comes once a second.
      over = began + updates_test.ROUND_S + 2 * updates_test.DEADLINE_S
      made = [event['t'] for event in rounds if event['blocks'] > 0 and over < event['t'] < alone[0] - 1]
      self.assertEqual(made, [], agent.name)
      self.assertTrue([event for event in rounds if event['blocks'] > 0 and event['t'] > alone[0]], agent.name)
    self.assertNotEqual(left[0].last('status')['log_heads'], right[0].last('status')['log_heads'])
    self.tell('side all 0')
    self.agree_soon(agents, 'one log of all after the heal')
    self.assert_all_run(agents)


if __name__ == '__main__':
  swarm.main()
