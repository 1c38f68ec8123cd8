"""A swarm with tickets, of real processes: agents that have one train together, no other gets in, and what is wrong is
named within seconds. Tickets stand in no log and in no list of processes."""

import contextlib
import os
import pathlib
import re
import select
import shutil
import socket
import stat
import struct
import subprocess
import threading
import time

import swarm

SOON = 10  # seconds, for a reason; the program says it within five, on a machine that does nothing else
KEY = re.compile(r'#[A-Za-z0-9_-]{20,}')


class Trust(swarm.Case):
  def ticketed(self, name='swarm.yaml', **options):
    path = self.quadratic(name, **options)
    path.write_text(path.read_text().replace('swarm:\n', 'swarm:\n  trust: ticket\n'))
    return path

  def first(self, name='first', *arguments, **options):
    """The agent that begins a swarm, and its ticket."""
    agent = self.agent(name, '--config', self.ticketed(**options), *arguments)
    self.joined(agent)
    return agent, self.ticket(agent)

  def ticket(self, process):
    path = process.state / 'ticket'
    self.wait(path.exists, f'the ticket of {process.name}')
    return path.read_text().strip()

  def by_ticket(self, name, ticket, *arguments, **options):
    return self.joiner(name, ticket, *arguments, **options)

  def trained(self, agents, count=3):
    before = [agent.done() for agent in agents]
    self.wait(
      lambda: all(agent.done() >= done + count for agent, done in zip(agents, before)), 'exchanges of all of them'
    )

  def refused(self, process, *texts):
    """Not let in, and told why; nothing that it says shows a ticket."""
    began = time.monotonic()
    for text in texts:
      self.wait_log(process, text, seconds=SOON)
    self.assertLess(time.monotonic() - began, SOON)
    self.assertIsNone(process.last('joined'), process.log())
    self.assertNotRegex(process.log(), KEY)

  def test_three_machines(self):
    first, ticket = self.first()
    self.assertRegex(ticket, r'^127\.0\.0\.1:\d+#[\w-]{92}$')
    for file in ('ticket', 'swarm.key'):
      self.assertEqual(stat.S_IMODE((first.state / file).stat().st_mode), 0o600)
    second = self.by_ticket('second', ticket)
    file = self.folder / 'join.txt'
    file.write_text(ticket + '\n')
    third = self.by_ticket('third', f'@{file}')
    agents = [first, second, third]
    for agent in agents[1:]:
      self.joined(agent, 'fetched')
    self.trained(agents)
    for agent in agents:
      self.assertNotRegex(agent.log(), KEY)
      self.assertNotRegex(agent.metrics_path.read_text(), KEY)
      line = pathlib.Path(f'/proc/{agent.child.pid}/cmdline').read_bytes().decode()
      self.assertNotRegex(line, KEY)
    key = re.search(r'trust: ticket ([0-9a-f]{64})', (second.state / 'settings.yaml').read_text())
    self.assertTrue(key, 'the swarm has a public key in its settings')

    def knows_the_others(agent):
      members = agent.state / 'members'
      return members.exists() and all(other.peer() in members.read_text() for other in agents if other is not agent)

    self.wait(lambda: all(map(knows_the_others, agents)), 'the members to be stored')

    # The ticket's own agent may be gone, and a member needs no ticket again.
    first.kill()
    second.kill()
    third.kill()
    again = [self.agent(agent.name, '--listen', agent.address()) for agent in (second, third)]
    self.trained(again)
    first_again = self.agent('first', '--listen', first.address())
    self.trained([*again, first_again])

    # Each member invites.
    fourth = self.by_ticket('fourth', self.ticket(second))
    self.joined(fourth, 'fetched')
    self.trained([fourth])

  def test_nobody_gets_in_without(self):
    first, ticket = self.first()
    at, key = ticket.split('#')
    other, others_ticket = self.first('other')
    others_at, others_key = others_ticket.split('#')
    without = self.joiner('without', at)
    others = self.joiner('others', f'{at}#{others_key}')
    begun = self.agent('begun', '--config', self.ticketed('own.yaml'), '--bootstrap', at)
    open_config = self.agent('open', '--config', self.quadratic('open.yaml'), '--bootstrap', at)
    self.refused(without, 'lets in nobody without a ticket', 'give the address as')
    self.refused(others, 'the ticket does not open', 'Ask for the ticket')
    self.refused(begun, 'names ' + at + ' without a ticket')
    self.wait_log(open_config, 'lets in nobody without a ticket', seconds=SOON)
    for name, wrong, why in (
      ('cut', ticket[:-3], 'is cut off: it has 89 characters'),
      ('blank', f'{at}#{key[:40]} {key[40:]}', 'a blank'),
      ('character', f'{at}#{key[:40]}{"A" if key[40] != "A" else "B"}{key[41:]}', 'a wrong character'),
      ('encoded', f'{at}%23{key}', 'URL-encoded'),
      ('address', key, 'is no address'),
    ):
      typed = self.joiner(name, wrong)
      self.refused(typed, why, 'copy the whole line')
      self.assertNotEqual(self.wait_end(typed), 0)
      self.assertNotIn(key[60:80], typed.log())
    for process in (without, others, open_config):
      process.kill()
    self.wait_log(first, 'for want of a ticket of this swarm')
    self.assertEqual((first.last('status') or {}).get('peers'), 0)
    self.assertTrue(first.running())

    # A ticket for a swarm that is open.
    plain = self.agent('plain', '--config', self.quadratic('plain.yaml'))
    self.joined(plain)
    closed = self.joiner('closed', f'{plain.address()}#{key}')
    self.refused(closed, 'asks for no ticket')

  def test_a_new_swarm_that_others_reach_has_tickets(self):
    """Unless its config says open: then each start warns. On loopback neither is said."""
    config, beyond, warning = self.quadratic(), ['--listen', '0.0.0.0:0'], 'this swarm is open: all that reach'
    first = self.agent('first', '--config', config, *beyond)
    ticket = self.ticket(first)
    self.joined(self.by_ticket('second', ticket, *beyond), 'fetched')
    self.refused(self.joiner('without', ticket.split('#')[0], *beyond), 'lets in nobody without a ticket')
    self.assertNotIn(warning, first.log())

    said_open = self.folder / 'open.yaml'
    said_open.write_text(config.read_text().replace('swarm:\n', 'swarm:\n  trust: open\n'))
    founder = self.agent('open', '--config', said_open, *beyond)
    self.joined(founder)
    joiner = self.joiner('joiner', founder.address(), *beyond)
    self.joined(joiner, 'fetched')
    for agent in (founder, joiner):
      self.interrupt(agent)
      again = self.agent(agent.name, '--alone', *beyond)
      self.wait(lambda again=again: again.log().count(warning) == 2, 'a warning at each start')
    local = self.agent('local', '--config', self.quadratic('local.yaml'))
    self.joined(local)
    for agent in (founder, joiner, local):
      self.assertFalse((agent.state / 'ticket').exists())
    self.assertNotIn(warning, local.log())

  def test_a_swarm_that_began_open_stays_open_where_others_reach_it(self):
    config = self.quadratic()
    local = self.agent('local', '--config', config)
    self.joined(local)
    self.interrupt(local)
    again = self.agent('local', '--config', config, '--listen', '0.0.0.0:0')
    self.wait_log(again, 'this swarm is open: all that reach')
    self.wait(lambda: len(again.events('joined')) == 2, 'it to train on')
    for file in ('ticket', 'swarm.key'):
      self.assertFalse((again.state / file).exists())
    second = self.joiner('second', f'127.0.0.1:{again.address().rpartition(":")[2]}', '--listen', '0.0.0.0:0')
    self.joined(second, 'fetched')

  def read_until(self, descriptor, pattern):
    """The match in all that comes."""
    said = []

    def found():
      if select.select([descriptor], [], [], 0)[0]:
        said.append(os.read(descriptor, 1 << 16).decode(errors='replace'))
      return re.search(pattern, ''.join(said))

    return self.wait(found, pattern)

  def test_the_ticket_is_shown_on_a_terminal_alone(self):
    """Not on a pipe or in a file, also where stdout is a terminal."""
    ours, theirs = os.openpty()
    self.addCleanup(os.close, ours)
    self.addCleanup(os.close, theirs)
    first = self.agent('first', '--config', self.ticketed(), streams={'stderr': theirs})
    shown = self.read_until(ours, r'others on this machine join with: starling agent --bootstrap (\S+#[\w-]+) --data')
    self.assertEqual(shown[1], self.ticket(first))
    self.joined(self.by_ticket('second', shown[1]), 'fetched')
    self.assertNotRegex(first.log(), KEY, 'stdout was a file')

    reader, writer = os.pipe()
    self.addCleanup(os.close, reader)
    self.agent('piped', '--config', self.ticketed('piped.yaml'), streams={'stdout': theirs, 'stderr': writer})
    os.close(writer)
    piped = self.read_until(reader, r'--bootstrap HOST:PORT#TICKET')
    filed = self.agent('filed', '--config', self.ticketed('filed.yaml'), streams={'stdout': theirs})
    self.joined(filed)
    self.assertIn('--bootstrap HOST:PORT#TICKET', filed.log())
    said = piped.string + filed.log()
    while select.select([ours], [], [], 0)[0]:
      said += os.read(ours, 1 << 16).decode(errors='replace')
    self.assertNotRegex(said, KEY)

  def test_other_processes_of_its_user_cannot_read_its_memory(self):
    """Nor does the kernel dump it: both are asked of the same flag. Of an agent without a ticket they can."""
    root = os.geteuid() == 0  # it may read all, so another user is taken
    user = 60000 + os.getpid() % 5000 if root else os.geteuid()
    other = {'user': user, 'group': user} if root else {}
    self.folder.chmod(0o755)
    program = pathlib.Path(swarm.PROGRAM).resolve()
    if subprocess.run([program, '--version'], **other, capture_output=True).returncode != 0:
      self.skipTest('another user may not run the program from here')
    for name, config in (('hidden', self.ticketed()), ('open', self.quadratic('open.yaml'))):
      (self.folder / name).mkdir()
      if root:
        os.chown(self.folder / name, user, user)
      agent = self.agent(name, '--config', config, user=user if root else None, working=self.folder / name)
      self.joined(agent)
      file = f'/proc/{agent.child.pid}/environ'
      read = subprocess.run(['cat', file], **other, capture_output=True)
      self.assertEqual(read.returncode != 0, name == 'hidden', read.stderr)
      self.assertEqual(os.stat(file).st_uid, 0 if name == 'hidden' else user)

  def test_an_agent_without_ticket_gets_in_later(self):
    first, ticket = self.first()
    newcomer = self.joiner('newcomer', ticket.split('#')[0])
    self.refused(newcomer, 'lets in nobody without a ticket')
    newcomer.kill()
    self.joined(self.by_ticket('newcomer', ticket), 'fetched')

  def test_a_ticket_comes_by_the_environment_and_by_stdin(self):
    first, ticket = self.first()
    second = self.agent('second', environment={'STARLING_BOOTSTRAP': ticket})
    self.joined(second, 'fetched')
    line = self.folder / 'line'
    line.write_text(ticket + '\n')
    third = self.joiner('third', '-', wrapper=['sh', '-c', f'exec "$@" < {line}', 'sh'])
    self.joined(third, 'fetched')
    self.trained([first, second, third])

  def test_a_registry_serves_it(self):
    first, ticket = self.first()
    port = swarm.free_port_pair()
    registry = self.registry('registry', port, '--bootstrap', ticket)
    through = self.by_ticket('through', self.ticket(registry))
    self.wait_log(registry, 'join with the ticket in')
    self.assertNotRegex(registry.log(), KEY)
    # It knows the swarm from the first agent that calls it.
    calls = self.agent('calls', '--bootstrap', f'{ticket},{self.ticket(registry)}')
    self.joined(calls, 'fetched')
    self.joined(through, 'fetched')
    self.trained([first, calls, through])
    stranger = self.joiner('stranger', f'127.0.0.1:{port}')
    self.refused(stranger, 'lets in nobody without a ticket')
    registry.kill()
    again = self.registry('registry', port)
    self.wait_log(again, 'serves swarm')

  def status(self, *arguments):
    """Run beside the agents: its exit status and what it said."""
    done = subprocess.run(
      [swarm.PROGRAM, 'status', '--once', '--json', *map(str, arguments)],
      capture_output=True,
      text=True,
      timeout=swarm.PATIENCE,
      cwd=self.folder,
    )
    return done.returncode, done.stdout + done.stderr

  def test_status_asks_by_ticket(self):
    first, ticket = self.first()
    second = self.by_ticket('second', ticket)
    self.joined(second)
    self.trained([first, second])
    at = ticket.split('#')[0]
    for arguments in (['--state', first.state], [ticket], [at, '--state', second.state], ['--state', second.state]):
      code, said = self.status(*arguments)
      self.assertEqual(code, 0, said)
      self.assertIn(first.peer()[:8], said)
    code, said = self.status(at)
    self.assertEqual(code, 1, said)
    self.assertIn('lets in nobody without a ticket', said)
    code, said = self.status(ticket[:-1])
    self.assertEqual(code, 1, said)
    self.assertIn('cut off', said)
    self.assertNotRegex(said, KEY)

  def test_files_that_are_wrong(self):
    first, ticket = self.first()
    second = self.by_ticket('second', ticket)
    self.joined(second)
    self.trained([first, second])
    second.kill()
    key = second.state / 'swarm.key'
    key.chmod(0o644)
    self.trained([self.agent('second')])
    self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
    self.wait_log(self.processes[-1], 'other users could open')
    self.processes[-1].kill()
    whole = key.read_bytes()
    if os.geteuid() == 0:
      os.chown(key, 12345, -1)
      ended = self.agent('second')
      self.assertEqual(self.wait_end(ended), 1, ended.log())
      self.assertIn('belongs to another user', ended.log())
      os.chown(key, 0, -1)
    for damage, why in (
      (lambda: key.write_bytes(whole[:31]), 'is damaged'),
      (lambda: (key.unlink(), key.symlink_to(first.state / 'swarm.key')), 'is a symbolic link'),
      (lambda: (key.unlink(), key.write_bytes(os.urandom(32))), 'is not the key of the swarm'),
      (lambda: key.unlink(), 'swarm.key is gone'),
    ):
      damage()
      ended = self.agent('second')
      self.assertEqual(self.wait_end(ended), 1, ended.log())
      self.assertIn(why, ended.log())
    self.trained([self.by_ticket('second', ticket)])  # which brings the key again

  def test_a_local_swarm_with_tickets(self):
    out = self.folder / 'out'
    run = self.start(
      'local', 'swarm', '--config', self.ticketed(), '--agents', '3', '--steps', '200', '--no-baselines', '--out', out
    )
    self.assertEqual(self.wait_end(run), 0, run.log())
    self.assertTrue((out / 'agent-0' / 'state' / 'swarm.key').exists())
    for log in out.glob('*/log'):
      self.assertNotRegex(log.read_text(), KEY)

  def test_two_swarms_do_not_share_a_folder(self):
    first, ticket = self.first()
    plain = self.agent('plain', '--config', self.quadratic('plain.yaml'))
    self.joined(plain)
    plain.kill()
    ended = self.agent('plain', '--bootstrap', ticket)
    self.assertEqual(self.wait_end(ended), 1)
    self.assertIn('belongs to a swarm without tickets', ended.log())
    other, others = self.first('other')
    other.kill()
    shutil.copy(first.state / 'swarm.key', self.folder / 'kept')
    ended = self.agent('other', '--bootstrap', ticket)
    self.assertEqual(self.wait_end(ended), 1)
    self.assertIn('is the key of another swarm', ended.log())

  @contextlib.contextmanager
  def heard(self, port):
    """What comes and goes by this port and the next one, as bytes that grow."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    wire.bind(('lo', 0))
    wire.settimeout(0.2)
    seen, ended, ports = bytearray(), threading.Event(), {port, port + 1}

    def listen():  # others may use the interface
      while not ended.is_set():
        with contextlib.suppress(TimeoutError):
          packet = wire.recv(1 << 17)
          if ports & set(struct.unpack_from('!HH', packet.ljust(38, b'\0'), 34)):  # of TCP, behind Ethernet and IPv4
            seen.extend(packet)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
      yield seen
    finally:
      ended.set()
      thread.join()
      wire.close()

  def windows_of_the_model(self, config, by_ticket=False):
    """How many of a model's pieces of 32 bytes are seen on the wire while a newcomer fetches it and exchanges it."""
    first = self.agent('first', '--config', config, '--set', 'agent.checkpoint.every=1h')
    self.joined(first)
    address = self.ticket(first) if by_ticket else first.address()
    with self.heard(int(first.address().rpartition(':')[2])) as seen:
      self.joined(self.joiner('second', address), 'fetched')
      self.wait(lambda: len(seen) > 80_000, 'the model on the wire')
    for process in self.processes:
      process.kill()
    # The first agent stores its model when it is asked for it, and the newcomer's first payload is that one again.
    models = [file.read_bytes()[4096:] for file in (first.state / 'checkpoints').glob('*.ckpt')]
    return max(sum(model[at : at + 32] in seen for at in range(0, 40_000, 400)) for model in models)

  def test_what_travels_is_encrypted(self):
    try:
      plain = self.windows_of_the_model(self.quadratic('plain.yaml', dimension=20_000, codec='fp32'))
    except PermissionError:
      self.skipTest('may not listen to the wire here')
    self.assertGreater(plain, 90, 'an open swarm sends the model as it is')
    shutil.rmtree(self.folder / 'first')
    shutil.rmtree(self.folder / 'second')
    self.assertEqual(self.windows_of_the_model(self.ticketed(dimension=20_000, codec='fp32'), by_ticket=True), 0)


if __name__ == '__main__':
  swarm.main()
