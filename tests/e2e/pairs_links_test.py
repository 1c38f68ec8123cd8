"""Pairs over emulated links that fall silent, as a pulled cable does: no side is told, and no connection is closed.
Each side goes on by itself; after the heal they exchange again, and nobody has ended."""

import time

import links
import swarm

CUT_S = 6
DEADLINE_S, ROUND_STEPS = 0.5, 2  # of swarm.QUADRATIC
WAITING_STEPS = ROUND_STEPS * CUT_S / DEADLINE_S  # of one that waited for the other side in every round


class PairsCut(links.Linked, swarm.Case):
  def done_with(self, agent, since):
    """The peers of the exchanges that were completed after this moment."""
    return [event['peer'] for event in agent.events('exchange') if event['t'] > since and event['outcome'] == 'done']

  def cut_and_heal(self, sides, cut, heal):
    agents = self.agents_on_links(self.quadratic())
    self.wait(lambda: all(agent.done() >= 10 for agent in agents), 'exchanges of all agents')
    peers = [agent.peer() for agent in agents]
    steps, began = [agent.steps() for agent in agents], time.time()
    self.tell(*cut)
    swarm.pause(CUT_S)
    for i, agent in enumerate(agents):
      took, met = agent.steps() - steps[i], self.done_with(agent, began + 2 * DEADLINE_S)
      print(f'# {agent.name}: {took} steps and {len(met)} exchanges in {CUT_S} s of the cut')
      self.assertGreater(took, 2 * WAITING_STEPS, f'{agent.name} waited for the other side' + self.logs())
      own_side = next(side for side in sides if i in side)
      self.assertLessEqual(set(met), {peers[j] for j in own_side}, 'nothing crosses the cut')
      if len(own_side) > 1:
        self.assertGreater(len(met), 10, f'{agent.name} exchanged with nobody' + self.logs())
    healed = time.time()
    self.tell(*heal)
    for i, agent in enumerate(agents):
      others = {peer for j, peer in enumerate(peers) if not any(i in side and j in side for side in sides)}
      self.wait(lambda: others & set(self.done_with(agent, healed)), f'{agent.name} to meet the other side again')
      print(f'# {agent.name}: met the other side {time.time() - healed:.1f} s after the heal')
    self.assert_all_run(agents)

  def test_two_and_two(self):
    self.cut_and_heal([{0, 1}, {2, 3}], ['side 2 1', 'side 3 1'], ['side all 0'])

  def test_one_alone(self):
    self.cut_and_heal([{0, 1, 2}, {3}], ['cut 3'], ['heal 3'])


if __name__ == '__main__':
  swarm.main()
