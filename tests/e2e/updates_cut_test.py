"""Agents that share updates over emulated links: one is cut off for 30 s, and nobody is told. Links need root."""
import json
import os
import subprocess

import swarm
import updates_test

RELAY = os.environ.get('LINK_RELAY', '')
CUT_S = 30
NODES = 4


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

  def tell(self, command):
    self.relay.stdin.write(command + '\n')
    self.relay.stdin.flush()

  def test_entries_go_on_without_one_that_is_cut_off(self):
    flags = [word for setting in updates_test.SETTINGS for word in ('--set', setting)]
    config = self.quadratic()
    agents = []
    for i, node in enumerate(self.nodes):
      bootstrap = ['--bootstrap', f'{self.nodes[0]["address"]}:7400'] if i > 0 else []
      folder = self.folder / f'agent-{i}'
      agent = swarm.Process(folder, [f'--net={node["namespace"]}', swarm.PROGRAM, 'agent', '--name', f'agent-{i}',
                                     '--state', folder / 'state', '--metrics', folder / 'metrics.jsonl', '--listen',
                                     f'{node["address"]}:7400', '--config', config, *bootstrap, *flags],
                            program='nsenter')
      self.processes.append(agent)
      agents.append(agent)
    for agent in agents:
      self.joined(agent)
    self.wait(lambda: all(agent.done() >= 3 for agent in agents), 'rounds of all agents')
    self.agree_soon(agents, 'one log')
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


if __name__ == '__main__':
  swarm.main()
