"""Wrong clocks, in this life or in an earlier one, and an identity that is in use twice. Nobody is locked out, and each
side says what it is."""

import contextlib
import shutil
import socket
import threading
import time

import certified
import swarm

YEAR_MS = 365 * 24 * 3600 * 1000
TWICE_S = 20  # within which both say so


def now_ms():
  return int(time.time() * 1000)


class Front:
  """One address in front of two processes, as of a router that hides both: it leads to one of them at a time."""

  def __init__(self, port):
    self.address, self.to, self.links = f'127.0.0.1:{port}', None, []
    self.turns = threading.Lock()  # no link is made to a process to which this leads no more
    self.listeners = [socket.create_server(('127.0.0.1', port + bulk)) for bulk in (0, 1)]
    for bulk, listener in enumerate(self.listeners):
      threading.Thread(target=self.accept, args=[listener, bulk], daemon=True).start()

  def accept(self, listener, bulk):
    with contextlib.suppress(OSError):  # once it is closed
      while True:
        outer = listener.accept()[0]
        with self.turns:
          try:
            inner = socket.create_connection(('127.0.0.1', self.to + bulk))
          except (OSError, TypeError):  # it leads nowhere yet, or no more
            outer.close()
            continue
          self.links.append((outer, inner))
        for ends in ((outer, inner), (inner, outer)):
          threading.Thread(target=self.carry, args=ends, daemon=True).start()

  def carry(self, source, sink):
    with contextlib.suppress(OSError):
      while part := source.recv(65536):
        sink.sendall(part)
    self.cut(source, sink)

  def cut(self, *ends):
    for end in ends:
      with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)

  def lead_to(self, port):
    with self.turns:
      self.to = port
      for link in self.links:
        self.cut(*link)
      self.links = []

  def close(self):
    for end in self.listeners:
      self.cut(end)
      end.close()
    self.lead_to(None)


class Clocks(swarm.Case):
  def began_at(self, name, generation):
    """A state folder whose last process began by a clock that said this."""
    state = self.folder / name / 'state'
    state.mkdir(parents=True, mode=0o700)
    file = state / 'generation'
    file.write_text(f'{generation}\n')
    file.chmod(0o600)
    return state

  def exchanges_go_on(self, *agents):
    before = [agent.done() for agent in agents]
    self.wait(lambda: all(agent.done() >= done + 10 for agent, done in zip(agents, before)), 'exchanges of all')

  def test_a_newcomer_whose_clock_was_centuries_ahead(self):
    port = swarm.free_port_pair()
    a = self.agent('a', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.wait_log(a, 'join with')
    b = self.joiner('b', f'127.0.0.1:{port}', state=self.began_at('b', now_ms() + 300 * YEAR_MS))
    c = self.joiner('c', f'127.0.0.1:{port}')
    self.exchanges_go_on(a, b, c)
    self.wait_log(a, 'agent b began 23', 'one of the two is wrong')

  def test_a_swarm_of_the_future_takes_a_newcomer_of_today(self):
    port = swarm.free_port_pair()
    state = self.began_at('a', now_ms() + 20 * YEAR_MS)
    a = self.agent('a', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}', state=state)
    self.wait_log(a, 'join with')
    b = self.joiner('b', f'127.0.0.1:{port}')
    self.exchanges_go_on(a, b)

  def test_who_has_lost_its_number_goes_above_the_one_that_others_hold(self):
    port = swarm.free_port_pair()
    a = self.agent('a', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.wait_log(a, 'join with')
    ahead = now_ms() + 40 * YEAR_MS
    b = self.joiner('b', f'127.0.0.1:{port}', state=self.began_at('b', ahead))
    self.exchanges_go_on(a, b)
    self.interrupt(b)
    (b.state / 'generation').unlink()
    again = self.joiner('b2', f'127.0.0.1:{port}', state=b.state)
    self.exchanges_go_on(a, again)
    self.assertGreater(int((b.state / 'generation').read_text()), ahead + 1)
    self.assertIn('One of the two clocks was wrong', again.log())

  def test_a_restart_after_the_clock_jumped_is_let_in_once_the_first_life_is_found_dead(self):
    port = swarm.free_port_pair()
    a = self.agent('a', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.wait_log(a, 'join with')
    b = self.joiner('b', f'127.0.0.1:{port}')
    self.exchanges_go_on(a, b)
    b.kill()
    (b.state / 'generation').write_text(f'{now_ms() + 7 * YEAR_MS}\n')
    again = self.joiner('b2', f'127.0.0.1:{port}', state=b.state)
    self.exchanges_go_on(a, again)


class Twice(certified.Case):
  def pair(self):
    self.port = swarm.free_port_pair()
    a = self.agent('a', '--config', self.quadratic(), '--listen', f'127.0.0.1:{self.port}')
    self.wait_log(a, 'join with')
    b = self.joiner('b', f'127.0.0.1:{self.port}')
    self.wait(lambda: a.done() >= 5 and b.done() >= 5, 'exchanges of both')
    return a, b

  def copy(self, b, name='copy'):
    state = self.folder / name / 'state'
    shutil.copytree(b.state, state)
    return state

  def both_say_so(self, a, b, copy):
    """The younger one ends, and the older one exchanges on."""
    self.wait_log(copy, 'this identity is in use at ' + b.address(), seconds=TWICE_S)
    self.wait_log(b, 'this identity is in use at ' + copy.address(), seconds=TWICE_S)
    self.assertEqual(self.wait_end(copy), 1, self.logs())
    self.assertIn('--state NEW_FOLDER', copy.log())
    done = b.done()
    self.wait(lambda: b.done() >= done + 10, 'more exchanges of the older one')
    self.assert_all_run([a, b])

  def test_a_copied_folder_finds_the_process_that_it_was_copied_from(self):
    a, b = self.pair()
    state = self.copy(b)
    self.both_say_so(a, b, self.joiner('twin', f'127.0.0.1:{self.port}', state=state))
    twin = self.joiner('twin-again', f'127.0.0.1:{self.port}', state=state)
    self.assertEqual(self.wait_end(twin), 1, self.logs())
    self.assertIn('this identity is in use at ' + b.address(), twin.log())
    self.assertFalse(twin.last('joined'), twin.log())
    self.assertNotIn('took the place', b.log())

  def test_a_copy_without_an_address_is_found_by_what_members_hold(self):
    a, b = self.pair()
    state = self.copy(b)
    (state / 'address').unlink()
    twin = self.joiner('twin', f'127.0.0.1:{self.port}', state=state)
    before = b.address()
    self.both_say_so(a, b, twin)
    self.assertEqual(b.address(), before, 'it begins again at the port that members know')
    self.wait_log(b, f'a copy of this state folder ran at {twin.address()} and took the place')
    for false in ('clocks was wrong', 'open that port'):
      self.assertNotIn(false, b.log())
    self.assertNotIn(') left', a.log(), 'a copy says no farewell to members')

  def certified_pair(self):
    a = self.first('a')
    b = self.member(a, 'b')
    self.trained([a, b], 5)
    return a, b

  def test_a_copy_of_a_member_of_a_certified_swarm(self):
    a, b = self.certified_pair()
    self.both_say_so(a, b, self.agent('twin', state=self.copy(b)))

  def test_such_a_copy_without_an_address(self):
    a, b = self.certified_pair()
    state = self.copy(b)
    (state / 'address').unlink()
    self.both_say_so(a, b, self.agent('twin', state=state))
    self.assertNotIn(') left', a.log(), 'a copy says no farewell to members')

  def test_two_of_one_number(self):
    state = self.folder / 'first' / 'state'
    state.mkdir(parents=True, mode=0o700)
    port = swarm.free_port_pair()
    a = self.agent('a', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.wait_log(a, 'join with')
    made = self.joiner('made', f'127.0.0.1:{port}', state=state)
    self.wait(lambda: made.done() >= 3, 'its exchanges')
    self.interrupt(made)
    (state / 'generation').write_text(f'{now_ms() + YEAR_MS}\n')  # both begin with the next one
    (state / 'address').unlink()
    states = [self.folder / 'one' / 'state', self.folder / 'two' / 'state']
    for each in states:
      shutil.copytree(state, each)
    twins = [self.joiner(each.parent.name, f'127.0.0.1:{port}', state=each) for each in states]
    self.wait(lambda: sum(twin.running() for twin in twins) == 1, 'one of the two to end', TWICE_S)
    for twin, other in (twins, twins[::-1]):
      self.wait_log(twin, 'this identity is in use at ' + other.address(), seconds=TWICE_S)

  def behind_one_address(self):
    """A swarm, a member `b` of it behind an address that the copy of its folder will have too, and their ports."""
    ports = swarm.free_port_pairs(3)
    front = Front(ports[0])
    self.addCleanup(front.close)
    front.lead_to(ports[1])
    a = self.first('a')
    listen = [['--listen', f'127.0.0.1:{port}', '--advertise', front.address] for port in ports[1:]]
    b = self.joiner('b', self.ticket(a, 'b'), *listen[0])
    self.trained([a, b], 5)
    copy = self.agent('copy', *listen[1], state=self.copy(b))
    return front, a, b, copy, ports[1:]

  def test_a_folder_of_two_starts_ago(self):
    """By a clock that was ahead each start has the next number, also one that another process had."""
    a = self.first('a')
    listen = ['--listen', f'127.0.0.1:{swarm.free_port_pair()}']
    b = self.joiner('b', self.ticket(a, 'b'), *listen)
    self.trained([a, b])
    self.interrupt(b)
    (b.state / 'generation').write_text(f'{now_ms() + YEAR_MS}\n')
    old = self.copy(b)
    for name in ('b2', 'b3'):
      again = self.agent(name, *listen, state=b.state)
      self.trained([a, again])
      self.interrupt(again)
    restored = self.agent('restored', *listen, state=old)
    self.trained([a, restored])
    self.assertNotIn('in use', restored.log())
    self.wait_log(restored, 'clocks was wrong')

  def test_two_behind_one_address(self):
    """Neither can ask the other, as each is at the address itself."""
    front, a, b, copy, (port_of_b, port_of_copy) = self.behind_one_address()
    in_use = 'this identity is in use at ' + front.address
    front.lead_to(port_of_copy)
    self.trained([a, copy])
    front.lead_to(port_of_b)
    self.wait_log(b, in_use, seconds=TWICE_S)
    self.trained([a, b])
    front.lead_to(port_of_copy)
    self.assertEqual(self.wait_end(copy, TWICE_S), 1, self.logs())
    self.assertIn(in_use, copy.log())
    front.lead_to(port_of_b)
    self.trained([a, b])
    self.assert_all_run([a, b])
    for process in (b, copy):
      self.assertNotIn('clocks was wrong', process.log())


class RegistryTwice(certified.Case):
  """A copy of a registry's folder ends by itself. Newcomers join through the registry as before."""

  def start_copy(self, *flags, name='copy', without_address=False):
    self.port = swarm.free_port_pair()
    state = self.folder / name / 'state'
    shutil.copytree(self.bootstrap.state, state)
    if without_address:
      (state / 'address').unlink()
    return self.registry(name, self.port, *flags)

  def both_say_so(self, copy):
    self.wait_log(copy, 'this identity is in use at ' + self.at, seconds=TWICE_S)
    self.wait_log(self.bootstrap, f'this identity is in use at 127.0.0.1:{self.port}', seconds=TWICE_S)
    self.assertEqual(self.wait_end(copy), 1, self.logs())
    self.assertIn('--state NEW_FOLDER', copy.log())
    self.assertTrue(self.bootstrap.running(), self.logs())

  def serves(self, newcomer, members):
    self.joined(newcomer, 'fetched')
    everyone = [*members, newcomer]
    self.trained(everyone)

    def held(agent):
      of_it = [event['change'] for event in agent.events('member') if event['name'] == 'bootstrap']
      return of_it and of_it[-1] in ('joined', 'restarted')

    self.wait(lambda: all(map(held, everyone)), 'all of them to hold the registry')

  def open_swarm(self):
    port, agents = self.swarm(2, self.quadratic())
    self.at = f'127.0.0.1:{port}'
    return agents

  def test_it_finds_the_registry_that_it_was_copied_from(self):
    agents = self.open_swarm()
    copy = self.start_copy('--bootstrap', agents[0].address())
    self.both_say_so(copy)
    self.assertNotIn('serves swarm', copy.log())
    again = self.registry('copy', self.port, '--bootstrap', agents[0].address())
    self.assertEqual(self.wait_end(again), 1, self.logs())
    self.serves(self.joiner('c', self.at), agents)
    self.assertNotIn('starts again', self.bootstrap.log())

  def test_it_has_taken_the_place(self):
    agents = self.open_swarm()
    copy = self.start_copy('--bootstrap', agents[0].address(), without_address=True)
    self.both_say_so(copy)
    self.assertIn('serves swarm', copy.log())
    self.wait_log(self.bootstrap, f'ran at 127.0.0.1:{self.port} and took the place', 'this registry starts again')
    self.serves(self.joiner('c', self.at), agents)

  def test_it_has_taken_the_place_and_the_agent_that_was_named_is_gone(self):
    first = self.agent('first', '--config', self.quadratic())
    self.joined(first)
    port = swarm.free_port_pair()
    self.at = f'127.0.0.1:{port}'
    self.bootstrap = self.registry('registry', port, '--bootstrap', first.address())
    self.wait_log(self.bootstrap, "serves swarm 'e2e'")
    agents = [self.joiner(name, self.at) for name in 'ab']
    self.trained(agents)
    self.interrupt(first)
    copy = self.start_copy('--bootstrap', agents[1].address(), without_address=True)
    self.both_say_so(copy)
    self.wait_log(self.bootstrap, 'this registry starts again')
    self.serves(self.joiner('c', self.at), agents)

  def test_ctrl_c_as_it_takes_its_place_back(self):
    agents = self.open_swarm()
    self.start_copy('--bootstrap', agents[0].address(), without_address=True)
    self.wait_log(self.bootstrap, 'took the place', seconds=TWICE_S)
    self.assertEqual(self.interrupt(self.bootstrap)[0], 0)

  def test_of_a_certified_swarm(self):
    first = self.first()
    self.at = f'127.0.0.1:{swarm.free_port_pair()}'
    ticket = self.ticket(first, 'registry')
    self.bootstrap = self.registry('registry', self.at.split(':')[1], '--bootstrap', ticket)
    self.wait_log(self.bootstrap, "serves swarm 'e2e'")
    copy = self.start_copy('--bootstrap', ticket, name='placed', without_address=True)
    self.both_say_so(copy)
    self.wait_log(self.bootstrap, 'this registry starts again')
    self.both_say_so(self.start_copy('--bootstrap', ticket))
    via = f'{self.id_of("registry")}@{self.at}'
    self.serves(self.joiner('b', self.ticket(first, 'b', '--via', via)), [first])


if __name__ == '__main__':
  swarm.main()
