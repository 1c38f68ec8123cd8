"""Memberships of a certified swarm that end, and clocks that are wrong."""

import time

import certified
import swarm
from certified import SOON

DAY_S = 24 * 3600
YEAR_S = 365 * DAY_S


class Expiry(certified.Case):
  def test_a_membership_ends_and_goes_on(self):
    first = self.first()
    second = self.member(first, 'second')
    third = self.member(first, 'third', '--for', '12s')
    old = (third.state / 'ticket').read_text().strip()
    self.wait_log(third, "this agent's membership ends on", 'starling admit ' + third.peer())
    self.trained([first, second, third])
    self.wait_log(third, "this agent's membership has expired", seconds=20)
    swarm.pause(1)  # what was under way
    self.ends_exchanges(third, [first, second])
    self.assertTrue(third.running())
    ticket = self.ticket(first, 'third', '--for', '1h')
    (third.state / 'ticket').write_text(ticket + '\n')
    self.wait_log(third, 'has another ticket', seconds=SOON)
    self.trained([first, second, third])

    # Started with its first command line again, whose ticket has expired.
    third.kill()
    third = self.joiner('third', old)
    self.trained([first, second, third])
    self.assertEqual((third.state / 'ticket').read_text().strip(), ticket)

  def test_an_end_is_announced_a_week_before(self):
    first = self.first()
    sooner, later = self.member(first, 'sooner', '--for', '6d'), self.member(first, 'later', '--for', '8d')
    self.wait_log(sooner, "this agent's membership ends on", 'starling admit ' + sooner.peer(), seconds=SOON)
    self.wait_log(first, f'the membership of {sooner.peer()[:8]} ends on', seconds=SOON)
    self.trained([first, sooner, later])
    for quiet in (first, later):
      self.assertNotIn("this agent's membership", quiet.log())
    for holder, said in ((first, True), (sooner, False)):
      self.assertEqual(f'starling admit {sooner.peer()} --state {first.state}' in holder.log(), said)
    self.assertNotIn(later.peer(), first.log())

  def test_a_clock_that_is_a_year_off_where_no_ticket_ends(self):
    first = self.first()
    agents = [first]
    for name, ahead in (('ahead', YEAR_S), ('behind', -YEAR_S)):
      agents.append(self.member(first, name, environment=self.clock_ahead(ahead)))
    began = [agent.last('start')['t'] - first.last('start')['t'] for agent in agents]
    self.assertGreater(began[1], 364 * DAY_S, 'the clock is wrong')
    self.assertLess(began[2], -364 * DAY_S, 'the clock is wrong')
    self.trained(agents, 5)

  def test_a_clock_a_year_ahead_ends_nothing(self):
    first = self.first()
    others = [self.member(first, name, '--for', '30d') for name in ('second', 'third')]
    ahead = self.member(first, 'ahead', '--for', '90d', environment=self.clock_ahead(YEAR_S))
    self.wait_log(ahead, "this machine's clock is 365 days ahead of", 'set it right', seconds=SOON)
    self.trained([first, ahead, *others])
    first.kill()  # its membership never ends, so anybody hears it
    self.trained([ahead, *others], 5)
    self.assertNotIn("this agent's membership", ahead.log())
    for agent in others:
      self.assertNotIn("this machine's clock", agent.log())

  def test_a_registry_says_that_its_clock_is_wrong(self):
    first = self.first()
    second = self.member(first, 'second')
    ticket, port = self.ticket(first, 'registry', '--for', '90d'), swarm.free_port_pair()
    warns_at = time.monotonic() + 4  # of its membership, if it does
    registry = self.registry('registry', port, '--bootstrap', ticket, environment=self.clock_ahead(YEAR_S))
    self.wait_log(registry, "this machine's clock is 365 days ahead of the clocks of 2", 'set it right', seconds=SOON)
    self.trained([first, second])
    swarm.pause(max(0, warns_at - time.monotonic()))
    self.assertNotIn("this agent's membership", registry.log())

  def test_a_clock_a_year_behind_lets_nobody_stay(self):
    first = self.first()
    second = self.member(first, 'second')
    behind = self.member(first, 'behind', environment=self.clock_ahead(-YEAR_S))
    third = self.member(first, 'third', '--for', '15s')
    self.trained([first, second, behind, third])
    self.wait_log(third, "this agent's membership has expired", seconds=25)
    swarm.pause(1)  # what was under way
    self.ends_exchanges(third, [first, second, behind])
    said = 'the membership of agent third has expired'
    self.wait(lambda: any(said in agent.log() for agent in (first, second, behind)), 'one that hears it to say so')
    self.assertNotIn('takes connections', first.log())
    self.trained([first, second, behind])

  def test_of_two_clocks_each_member_takes_its_own(self):
    first = self.first()
    behind = self.member(first, 'behind', '--for', '12s', environment=self.clock_ahead(-YEAR_S))
    ended = time.monotonic() + 13
    self.trained([first, behind])
    swarm.pause(max(0, ended - time.monotonic()) + 1)  # and what was under way
    before = behind.done()
    swarm.pause(2)
    self.assertEqual(behind.done(), before)
    self.assertTrue(behind.running())

  def test_the_holder_of_the_key_asks_for_the_status_whatever_the_clocks_say(self):
    first = self.first('first', environment=self.clock_ahead(3 * DAY_S))
    self.assertIn(first.peer()[:8], self.command('status', '--once', '--json', '--state', first.state))

  def test_status_says_where_the_own_clock_ends_the_membership_of_the_asked(self):
    first = self.first()
    second = self.member(first, 'second', '--for', '30d')
    members = first.state / 'members'
    self.wait(lambda: members.exists() and second.peer() in members.read_text(), 'the members to be stored')
    asks = ['status', second.address(), '--once', '--state', first.state]
    self.assertIn('second', self.command(*asks))
    said = self.command(*asks, status=1, environment=self.clock_ahead(YEAR_S))
    self.assertIn('the clock of this machine says that its membership has ended', said)
    self.assertIn('the ticket of `starling admit ' + second.peer(), said)


if __name__ == '__main__':
  swarm.main()
