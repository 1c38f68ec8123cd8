"""Agents that share updates over emulated links: one is killed, frozen for 10 s, or cut off for 30 s, or two from two,
and nobody is told. Links need root."""

import signal
import time

import links
import swarm
import updates_test
from links import NODES
from updates_test import AGREE_S, DEADLINE_S, ROUND_SLACK_S

KILLED_S, FROZEN_S, CUT_S = 10, 10, 30  # so long it is watched
SLICES = 4
DIMENSION = SLICES * 32768
# Slow enough that rounds begin in which the others still count on who is gone.
SETTINGS = [*updates_test.SETTINGS, 'swarm.membership.probe_interval=2s', 'swarm.membership.probe_timeout=1s']


class LinkedUpdates(links.Linked, updates_test.Agreeing):
  def grouped(self):
    """The agents, once all hold one log."""
    agents = self.agents_on_links(self.quadratic(dimension=DIMENSION), *SETTINGS)
    self.wait(lambda: all(agent.done() >= 3 for agent in agents), 'rounds of all agents')
    self.agree_soon(agents, 'one log')
    return agents

  def assert_all_slices_go_on(self, agents):
    """Whoever owned one and is gone has lost it."""
    for agent in agents:
      newest = [event['blocks'] for event in agent.events('exchange')][-3:]
      self.assertIn(SLICES, newest, agent.name + self.logs())

  def agree_after_the_heal(self, agents):
    """Replicas must be equal within 10 s of the heal, with what the views take of it: members compare theirs with one
    that they take for dead after 1 s, then twice as long each time, 10 s at most (MembershipOptions::heal_interval)."""
    healed = time.time()

    def is_whole(event):
      return event['t'] > healed and event['peers'] == NODES - 1

    def all_meet():
      return all(is_whole(agent.last('status')) for agent in agents) and self.all_agree(agents, healed)

    self.wait(all_meet, 'whole views and one log of all after the heal', AGREE_S)
    equal = time.time()
    met = max(next(event['t'] for event in agent.events('status') if is_whole(event)) for agent in agents)
    print(f'# after the heal: views whole after {met - healed:.1f} s, replicas equal after {equal - healed:.1f} s')
    self.assert_all_run(agents)

  def test_entries_go_on_when_one_is_killed(self):
    agents = self.grouped()
    began = self.now(agents)
    agents[3].kill()
    swarm.pause(KILLED_S)
    self.assert_entries_go_on(agents[:3], began)
    self.assert_all_slices_go_on(agents[:3])
    self.agree_soon(agents[:3], 'one log of those who live')
    self.assert_all_run(agents[:3])

  def test_entries_go_on_when_one_stands_still(self):
    agents = self.grouped()
    frozen, others = agents[3], agents[:3]
    began = self.now(agents)
    frozen.send(signal.SIGSTOP)
    swarm.pause(FROZEN_S)
    self.assert_entries_go_on(others, began)
    self.assert_all_slices_go_on(others)
    frozen.send(signal.SIGCONT)
    self.agree_soon(agents, 'one log with the thawed one')
    self.assert_all_run(agents)

  def test_entries_go_on_without_one_that_is_cut_off(self):
    agents = self.grouped()
    apart, others = agents[3], agents[:3]
    began = self.now(others)
    self.tell('cut 3')
    swarm.pause(CUT_S)
    self.assert_entries_go_on(others, began)
    self.assert_all_slices_go_on(others)
    self.assertNotEqual(others[0].last('status')['log_heads'], apart.last('status')['log_heads'])
    self.tell('heal 3')
    self.agree_after_the_heal(agents)

  def test_two_against_two_make_no_entry_until_the_views_follow(self):
    agents = self.grouped()
    left, right = agents[:2], agents[2:]
    cut = time.time()
    self.tell('side 2 1', 'side 3 1')
    swarm.pause(CUT_S)
    for agent in agents:
      rounds = [event for event in agent.events('exchange') if event['t'] > cut]
      longest_s = max(event['ms'] for event in rounds) / 1e3
      self.assertLess(longest_s, 2 * DEADLINE_S + ROUND_SLACK_S, agent.name)
      # With one of them suspected three are left, and two are more than half.
      followed = [event['t'] for event in agent.events('member') if event['t'] > cut and event['change'] == 'suspected']
      self.assertTrue(followed, f'the view of {agent.name} followed' + self.logs())
      # What was under way when the cut began may make an entry yet.
      over = cut + 2 * DEADLINE_S
      looked_at = [event['blocks'] for event in rounds if over < event['t'] < followed[0]]
      print(f'# {agent.name}: view followed after {followed[0] - cut:.1f} s, {len(looked_at)} rounds before')
      self.assertEqual(sum(looked_at), 0, agent.name)
      self.assertEqual(agent.last('status')['peers'], 1, agent.name)
    self.assert_all_slices_go_on(agents)
    self.assertNotEqual(left[0].last('status')['log_heads'], right[0].last('status')['log_heads'])
    self.tell('side all 0')
    self.agree_after_the_heal(agents)


if __name__ == '__main__':
  swarm.main()
