"""A member that the holder of the key removes, and that goes on by force, with its own key and its valid proof: no
other takes anything of it."""

import time

import certified
import swarm
from certified import SOON

# A program that goes on when it is told that it is removed: it takes no revocation for signed.
DISOBEYS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
int crypto_sign_verify_detached(const unsigned char* signature, const unsigned char* text, unsigned long long size,
                                const unsigned char* key) {
  static const char revocation[] = "starling revocation 1";
  int (*real)(const unsigned char*, const unsigned char*, unsigned long long, const unsigned char*) =
      dlsym(RTLD_NEXT, "crypto_sign_verify_detached");
  if (size >= strlen(revocation) && memcmp(text, revocation, strlen(revocation)) == 0) return -1;
  return real(signature, text, size, key);
}
"""
FEW_S = 3  # after which nothing of it counts any more


class Removed(certified.Case):
  def exchanged(self, agents, peer, since=0.0):
    """What the agents say of exchanges with this peer that ended later."""
    events = [event for agent in agents for event in agent.events('exchange')]
    return [event for event in events if event['peer'] == peer and event['t'] > since]

  def cut_links(self, agents):
    return [agent.last('status')['links']['cut'] for agent in agents]

  def revoke(self, holder, removed, agents):
    """All know of it soon, and cut the links of each."""
    before = self.cut_links(agents)
    for one in removed:
      self.command('revoke', one.peer(), '--state', holder.state)
    for agent in agents:
      self.wait_log(agent, *(f'{one.peer()[:8]} is revoked' for one in removed), seconds=SOON)
    self.wait(lambda: all(now > then for now, then in zip(self.cut_links(agents), before)), 'cut links', SOON)
    swarm.pause(FEW_S)

  def calls_in_vain(self, agents):
    """It calls again and again, ever more rarely, and each link is cut."""
    before = sum(self.cut_links(agents))
    self.wait(lambda: sum(self.cut_links(agents)) > before, 'the links of the removed one to be cut again')

  def has_no_say(self, removed, agents):
    """Though it goes on to call, no exchange with it begins or ends."""
    since, done = time.time(), removed.done()
    self.trained(agents, 20)
    self.calls_in_vain(agents)
    swarm.pause(max(0, since + 5 - time.time()))
    self.assertEqual(self.exchanged(agents, removed.peer(), since), [], self.logs())
    self.assertEqual(removed.done(), done, self.logs())
    self.assert_all_run([*agents, removed])
    for agent in agents:
      self.assertEqual(agent.last('status')['peers'], len(agents) - 1, self.logs())

  def test_goes_on_by_force(self):
    force = self.before_libraries(DISOBEYS)
    first = self.first()
    second, removed = self.member(first, 'second'), self.member(first, 'removed', environment=force)
    agents = [first, second]
    for agent in agents:
      self.wait(lambda agent=agent: self.exchanged([agent], removed.peer()), 'exchanges with each')
    self.revoke(first, [removed], agents)
    self.has_no_say(removed, agents)

    # All links are new, and their proof is as good as before.
    removed.kill()
    again = self.agent('removed', '--listen', removed.address(), environment=force)
    self.has_no_say(again, agents)
    self.assertNotIn('is revoked: the holder', again.log())
    self.assertFalse((again.state / 'revoked').exists())

  def test_owns_slices_of_a_group(self):
    force = self.before_libraries(DISOBEYS)
    path = self.quadratic('first.yaml', dimension=140_000)  # of eight slices, so that each member owns some
    settings = ('kind=group', 'source=updates', 'overlap=off')
    flags = [word for setting in settings for word in ('--set', f'swarm.exchange.{setting}')]
    flags += ['--set', 'swarm.local_steps=20', '--set', 'swarm.stop_after=6000']
    first = self.first('first', *flags, config=path)
    files = self.command('admit', '--new', '--count', '4', '--out', 'boxes', '--state', first.state).split()
    tickets = [f'@{self.folder / file}' for file in files]
    removed = self.joiner('removed', tickets.pop(), environment=force)
    obeys, second, third = (self.joiner(name, tickets.pop()) for name in ('obeys', 'second', 'third'))
    others = [first, second, third]

    def status(agent):
      return agent.last('status')['updates']

    all_members = [*others, removed, obeys]
    for agent in all_members[1:]:
      self.joined(agent, 'fetched')
    self.wait(lambda: all(status(agent)['made'] > 0 for agent in all_members), 'entries that each member made')
    self.trained(all_members)
    self.revoke(first, [removed, obeys], others)
    self.assertEqual(self.wait_end(obeys, SOON), 1, obeys.log())
    before = [status(agent) for agent in others]
    self.wait(
      lambda: all(status(agent)['entries'] >= was['entries'] + 30 for agent, was in zip(others, before)), 'more entries'
    )
    for agent, was in zip(others, before):
      now = status(agent)
      counted = (now['payloads'] - was['payloads']) / (now['entries'] - was['entries'])
      self.assertLessEqual(counted, len(others), 'an entry counts more members than there are')
    self.assertTrue(removed.running(), self.logs())
    for agent in others:
      self.assertEqual(agent.last('status')['peers'], len(others) - 1, self.logs())
    removed.kill()
    for agent in others:
      self.assertEqual(self.wait_end(agent, 120), 0, self.logs())
      self.assertEqual(agent.last('finish')['reason'], 'stop_after')
    self.assertEqual(len({agent.last('finish')['log_heads'] for agent in others}), 1, self.logs())


if __name__ == '__main__':
  swarm.main()
