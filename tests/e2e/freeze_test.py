"""An agent that stands still for five seconds: the others go on, and it comes back."""

import signal
import time

import swarm

FROZEN_S = 5
AWAKE_S = 10  # it takes one, on a machine that does nothing else
EXCHANGES = 5  # meanwhile
ROUND_STEPS, DEADLINE_S = 2, 0.5  # of swarm.QUADRATIC
WAITING_STEPS = ROUND_STEPS * FROZEN_S / DEADLINE_S  # of one that waited for the frozen one in every round


class Freeze(swarm.Case):
  def test_others_go_on_and_it_comes_back(self):
    _, agents = self.swarm(3, self.quadratic())
    frozen, others = agents[2], agents[:2]
    frozen.send(signal.SIGSTOP)
    swarm.pause(0.1)  # what it had begun to write
    stood = frozen.steps()
    start_steps, start_done = [agent.steps() for agent in others], [agent.done() for agent in others]
    swarm.pause(FROZEN_S)
    for agent, steps, done in zip(others, start_steps, start_done):
      took = agent.steps() - steps
      self.assertGreater(took, 2 * WAITING_STEPS, f'{agent.name} waited for the frozen one' + self.logs())
      self.assertGreater(agent.done() - done, 10, f'{agent.name} exchanged with nobody' + self.logs())
    self.assertEqual(frozen.steps(), stood)
    for agent in others:
      self.wait(lambda: agent.last('member', peer=frozen.peer(), change='died'), f'{agent.name} to miss it', 20)

    done = frozen.done()
    thawed = time.time()
    frozen.send(signal.SIGCONT)
    self.wait(lambda: frozen.done() >= done + EXCHANGES, 'the thawed agent to exchange again')
    events = [event for event in frozen.events('exchange') if event['outcome'] == 'done']
    self.assertLess(events[done + EXCHANGES - 1]['t'] - thawed, AWAKE_S, self.logs())
    self.wait(lambda: frozen.steps() > stood + 50, 'the thawed agent to train again', 20)
    for agent in others:
      self.wait(
        lambda: agent.last('member', peer=frozen.peer())['change'] in ('alive', 'joined', 'restarted'),
        f'{agent.name} to see it again',
        20,
      )
    self.assert_all_run(agents)


if __name__ == '__main__':
  swarm.main()
