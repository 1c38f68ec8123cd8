"""Memberships of a certified swarm that end, and clocks that are wrong."""

import certified
import swarm
from certified import SOON

DAY_S = 24 * 3600


class Expiry(certified.Case):
  def test_a_membership_ends_and_goes_on(self):
    first = self.first()
    second = self.member(first, 'second')
    third = self.member(first, 'third', '--for', '12s')
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

  def test_an_end_is_announced_a_week_before(self):
    first = self.first()
    sooner, later = self.member(first, 'sooner', '--for', '6d'), self.member(first, 'later', '--for', '8d')
    self.wait_log(sooner, "this agent's membership ends on", 'starling admit ' + sooner.peer(), seconds=SOON)
    self.trained([first, sooner, later])
    for quiet in (first, later):
      self.assertNotIn("this agent's membership", quiet.log())

  def test_a_clock_that_is_a_year_off_where_no_ticket_ends(self):
    first = self.first()
    agents = [first]
    for name, ahead in (('ahead', 365 * DAY_S), ('behind', -365 * DAY_S)):
      agents.append(self.member(first, name, environment=self.clock_ahead(ahead)))
    began = [agent.last('start')['t'] - first.last('start')['t'] for agent in agents]
    self.assertGreater(began[1], 364 * DAY_S, 'the clock is wrong')
    self.assertLess(began[2], -364 * DAY_S, 'the clock is wrong')
    self.trained(agents, 5)

  def test_the_holder_of_the_key_asks_for_the_status_whatever_the_clocks_say(self):
    first = self.first('first', environment=self.clock_ahead(3 * DAY_S))
    self.assertIn(first.peer()[:8], self.command('status', '--once', '--json', '--state', first.state))


if __name__ == '__main__':
  swarm.main()
