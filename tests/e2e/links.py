"""Agents on nodes of their own with emulated links between them (tools/experiments/link_relay), which a test cuts and
heals in mid-run. LINK_RELAY names the program. Links need root; without it these cases are skipped."""

import json
import os
import subprocess

import swarm

RELAY = os.environ.get('LINK_RELAY', '')
NODES = 4


class Linked:
  """Beside swarm.Case or one of its children, before it."""

  def setUp(self):
    super().setUp()
    self.relay = subprocess.Popen(
      [RELAY, '--nodes', str(NODES), '--delay-ms', '5'],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
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

  def member(self, i, config, settings, environment=None):
    """The agent on node i; the first one is the others' bootstrap address."""
    ticket = self.folder / 'agent-0/state/ticket'
    if i > 0:
      self.wait(ticket.exists, 'the first agent to have a ticket')
    bootstrap = ['--bootstrap', f'@{ticket}'] if i > 0 else []
    folder, node = self.folder / f'agent-{i}', self.nodes[i]
    agent = swarm.Process(
      folder,
      [
        f'--net={node["namespace"]}',
        swarm.PROGRAM,
        'agent',
        '--name',
        f'agent-{i}',
        '--state',
        folder / 'state',
        '--metrics',
        folder / 'metrics.jsonl',
        '--set',
        'agent.metrics_every=0s',
        '--listen',
        f'{node["address"]}:7400',
        '--config',
        config,
        *bootstrap,
        *[word for setting in settings for word in ('--set', setting)],
      ],
      program='nsenter',
      environment=environment,
    )
    self.processes.append(agent)
    return agent

  def agents_on_links(self, config, *settings):
    """One agent a node, once all have joined."""
    agents = [self.member(i, config, settings) for i in range(len(self.nodes))]
    for agent in agents:
      self.joined(agent)
    return agents
