"""A certified swarm, of real processes: only the holder of its key admits agents, each by a ticket of its own, and
removes them again."""

import shutil
import signal
import stat
import time

import certified
import raw_links
import swarm
from certified import KEY, SOON


class Certified(certified.Case):
  def refused(self, process, *texts):
    """Not let in, told why, and ended."""
    began = time.monotonic()
    lives = len(process.events('joined'))
    for text in texts:
      self.wait_log(process, text, seconds=SOON)
    self.assertLess(time.monotonic() - began, SOON)
    self.assertEqual(self.wait_end(process), 1, process.log())
    self.assertEqual(len(process.events('joined')), lives, process.log())
    self.assertNotRegex(process.log(), KEY)

  def test_separate_administrators(self):
    first = self.first()
    second, third = self.member(first, 'second'), self.member(first, 'third', '--for', '90d')
    agents = [first, second, third]
    self.trained(agents)
    for agent in agents:
      self.assertNotRegex(agent.log(), KEY)
      self.assertRegex((agent.state / 'settings.yaml').read_text(), r'trust: certified [0-9a-f]{64}')
    self.assertEqual(stat.S_IMODE((first.state / 'swarm.key').stat().st_mode), 0o600)
    self.assertFalse((first.state / 'ticket').exists(), 'the key is in no ticket')
    self.wait_log(first, 'starling admit ID')
    for agent in (second, third):
      self.assertFalse((agent.state / 'swarm.key').exists())
      self.assertEqual(stat.S_IMODE((agent.state / 'ticket').stat().st_mode), 0o600)
    listed = self.command('members', '--state', first.state)
    self.assertIn(second.peer() + '  for ever', listed)
    self.assertRegex(listed, third.peer() + '  until 20')
    said = self.command('admit', 'a' * 64, '--state', second.state, status=1)
    self.assertIn('holds no swarm.key', said)
    for state in (first.state, second.state):
      said = self.command('status', '--once', '--json', '--state', state)
      for agent in agents:
        self.assertIn(agent.peer()[:8], said)

    # The holder of the key may be gone, and a member needs no ticket again.
    self.wait(lambda: second.peer() in (third.state / 'members').read_text(), 'the members to be stored')
    first.kill()
    third.kill()
    again = self.agent('third', '--listen', third.address())
    self.trained([second, again])

  def test_a_ticket_is_of_one_agent(self):
    first = self.first()
    second = self.member(first, 'second')
    ticket = (second.state / 'ticket').read_text().strip()
    thief = self.joiner('thief', ticket)
    self.refused(thief, 'the ticket is for the agent ' + second.peer(), 'starling admit')
    other = self.first('other')
    of_other = self.ticket(other, 'second')
    second.kill()
    self.refused(self.agent('second', '--bootstrap', of_other), 'the ticket is of another swarm')
    expired = self.ticket(first, 'late', '--for', '1s')
    swarm.pause(2)
    self.refused(self.joiner('late', expired), 'the ticket has expired', 'starling admit')
    self.refused(self.joiner('cut', ticket[:-3]), 'cut off: it has 283 characters')
    at, key = ticket.split('#')
    wrong = f'{at}#{key[:200]}{"A" if key[200] != "A" else "B"}{key[201:]}'
    self.refused(self.joiner('typed', wrong), 'a wrong character')
    without = self.joiner('without', at)
    self.wait_log(without, 'lets in nobody without a ticket', seconds=SOON)

  def test_boxes_get_identity_and_ticket_at_once(self):
    first = self.first()
    out = self.folder / 'boxes'
    files = self.command('admit', '--new', '--count', '3', '--out', out, '--state', first.state).split()
    self.assertEqual(len(files), 3)
    self.assertEqual(stat.S_IMODE((self.folder / files[0]).stat().st_mode), 0o600)
    boxes = [self.joiner(f'box{i}', f'@{file}') for i, file in enumerate(files[:2])]
    for box, file in zip(boxes, files, strict=False):
      self.joined(box, 'fetched')
      self.assertTrue(file.endswith(box.peer()[:16] + '.ticket'))
      self.assertEqual(len((box.state / 'ticket').read_text().split('#')[1].strip()), 286, 'its identity is elsewhere')
    self.trained([first, *boxes])
    copy = self.joiner('copy', f'@{files[0]}')
    self.assertEqual(self.wait_end(copy), 1, copy.log())
    self.assertIn('a ticket of its own (starling admit --new)', copy.log())
    self.assertNotIn('goes on from its last checkpoint', copy.log())
    boxes[1].kill()
    self.trained([first, self.agent('box1', '--listen', boxes[1].address())])

  def test_key_tells_a_new_identity(self):
    new = 'a new identity, in'
    for run in range(2):
      key = self.start(f'key{run}', 'key', '--state', self.folder / 'state')
      self.assertEqual(self.wait_end(key), 0)
      self.assertEqual(new in key.log(), run == 0, key.log())

  def test_a_member_is_removed(self):
    first = self.first()
    second, third = self.member(first, 'second'), self.member(first, 'third')
    self.trained([first, second, third])
    shutil.copytree(third.state, self.folder / 'copy' / 'state')
    said = self.command('revoke', third.peer()[:8], '--state', first.state)
    self.assertIn('tells the swarm', said)
    self.wait_log(third, 'is revoked: the holder', seconds=SOON)
    self.assertNotEqual(self.wait_end(third), 0)
    self.assertNotIn('goes on from its last checkpoint', third.log())
    self.wait_log(second, third.peer()[:8] + ' is revoked', seconds=SOON)
    self.assertIn(third.peer() + '  revoked', self.command('members', '--state', first.state))
    self.assertIn('revoked for ever', self.command('admit', third.peer(), '--state', first.state, status=1))
    self.assertIn('1s at least', self.command('admit', 'a' * 64, '--for', '0s', '--state', first.state, status=2))
    self.assertIn('is revoked already', self.command('revoke', third.peer(), '--state', first.state))
    self.ends_exchanges(third, [first, second])
    self.refused(self.agent('third'), 'is revoked: the holder')

    # All that it had, elsewhere, before it heard of that; the holder of the key may be gone.
    copy = self.agent('copy')
    self.wait_log(copy, 'is revoked', seconds=SOON)
    self.ends_exchanges(copy, [first, second])
    self.assertEqual(copy.done(), 0, copy.log())
    second.kill()
    again = self.agent('second', '--listen', second.address())
    self.trained([again])
    self.assertTrue((again.state / 'revoked').exists())

  def test_a_removal_outlives_a_partition(self):
    first = self.first()
    second, third = self.member(first, 'second'), self.member(first, 'third')
    self.trained([first, second, third])
    for cut_off in (second, third):
      cut_off.send(signal.SIGSTOP)
    self.command('revoke', third.peer(), '--state', first.state)
    self.wait_log(first, second.peer()[:8] + ') is gone')
    for cut_off in (second, third):
      cut_off.send(signal.SIGCONT)
    self.wait_log(second, third.peer()[:8] + ' is revoked', seconds=SOON)
    self.assertNotEqual(self.wait_end(third), 0)
    self.ends_exchanges(third, [first, second])

  def test_ids_minted_from_what_a_removed_member_has(self):
    """Its ticket opens the door for ever; what it can say there about itself is worth nothing."""
    first = self.first()
    second = self.member(first, 'second')
    self.trained([first, second])
    files = self.command('admit', '--new', '--count', '2', '--out', 'boxes', '--state', first.state).split()
    removed, good = (raw_links.Ticket((self.folder / file).read_text()) for file in files)
    self.command('revoke', removed.own.hex(), '--state', first.state)
    self.wait_log(second, removed.own.hex()[:8] + ' is revoked', seconds=SOON)
    port = int(second.address().rpartition(':')[2])
    reader, membership, seed = bytes.fromhex(second.peer()), removed.membership, removed.seed

    def stays_open(ticket):
      """Whether a frame that says nothing leaves the link open."""
      try:
        link = raw_links.Curve(port, reader, ticket)
        link.link.sendall(link.parts(b'?', 1, False))
        link.link.settimeout(2)
        return link.link.recv(1) != b''
      except TimeoutError:
        return True
      except OSError:
        return False

    self.assertTrue(stays_open(good), 'a member is heard')
    new_id = bytes(raw_links.Sodium().id_of(bytes(31) + b'\1'))
    minted = {
      'another key': (membership, bytes(31) + b'\1'),
      'its own id in it': (membership[:1] + new_id + membership[33:], bytes(31) + b'\1'),
      'the membership of another member': (good.membership, seed),
      'nothing signed': (bytes([1]) + new_id + bytes(80), bytes(31) + b'\1'),
    }
    before, peers = second.last('status')['links']['cut'], second.last('status')['peers']
    for name, (removed.membership, removed.seed) in minted.items():
      self.assertFalse(stays_open(removed), name)
    self.wait(lambda: second.last('status')['links']['cut'] == before + len(minted), 'the links to be counted')
    self.trained([first, second])
    self.assertEqual(second.last('status')['peers'], peers)

  def test_a_ticket_file_that_is_wrong(self):
    first = self.first()
    second = self.member(first, 'second')
    second.kill()
    file = second.state / 'ticket'
    text = file.read_text()
    self.assertEqual(stat.S_IMODE(second.state.stat().st_mode), 0o700, 'whatever the mode of the file')
    for damage, why in (
      (lambda: file.write_text(text[:-9]), 'is cut off'),
      (lambda: (file.unlink(), file.symlink_to(first.state / 'swarm.key')), 'is a symbolic link'),
      (lambda: (file.unlink(), file.write_text(self.ticket(first, 'third'))), 'the ticket is for the agent '),
      (lambda: file.unlink(), 'swarm.key or ticket is gone'),
    ):
      damage()
      ended = self.agent('second')
      self.assertEqual(self.wait_end(ended), 1, ended.log())
      self.assertIn(why, ended.log())
    file.write_text(text)
    self.trained([first, self.agent('second')])

  def test_two_holders_of_the_key(self):
    first = self.first()
    second = self.member(first, 'second')
    self.trained([first, second])
    second.kill()
    for file in ('swarm.key', 'admissions'):
      shutil.copy(first.state / file, second.state / file)
    second = self.agent('second', '--listen', second.address())
    self.wait_log(second, 'starling admit ID')
    third, fourth = self.member(first, 'third'), self.member(second, 'fourth')
    numbers = [self.command('members', '--state', holder.state).splitlines()[-1].split() for holder in (first, second)]
    self.assertEqual(numbers[0][0], numbers[1][0], 'both have signed under one number')
    self.assertEqual([number[1] for number in numbers], [third.peer(), fourth.peer()])
    self.trained([first, second, third, fourth])
    self.command('revoke', fourth.peer(), '--state', second.state)
    self.assertNotEqual(self.wait_end(fourth), 0)
    self.command('revoke', third.peer(), '--state', second.state)
    self.assertNotEqual(self.wait_end(third), 0)
    self.ends_exchanges(third, [first, second])

  def test_a_copy_of_the_key_alone(self):
    """Nothing says then that its swarm is certified, and a ticket for all would give it away."""
    first = self.first()
    second = self.member(first, 'second')
    self.trained([first, second])
    copy = self.folder / 'copy' / 'state'
    copy.mkdir(parents=True, mode=0o700)
    shutil.copy(first.state / 'swarm.key', copy)
    missing = 'the file admissions is missing beside'
    for asked in (['admit', 'a' * 64], ['revoke', 'a' * 64], ['members']):
      self.assertIn(missing, self.command(*asked, '--state', copy, status=1))
    for given in (first.address(), self.ticket(first, 'third')):
      self.refused(self.joiner('copy', given), missing)
    self.assertFalse((copy / 'ticket').exists())
    shutil.copy(first.state / 'admissions', copy)
    self.trained([first, self.joiner('copy', self.ticket(first, 'copy'))])
    self.assertFalse((copy / 'ticket').exists())

    # The settings say it, though nothing else does; and another file has the revocations.
    self.command('revoke', second.peer(), '--state', first.state)
    self.assertNotEqual(self.wait_end(second), 0)
    self.wait(lambda: (first.state / 'revoked').exists(), 'the revocation to be stored')
    first.kill()
    (first.state / 'admissions').unlink()
    self.assertIn(missing, self.command('members', '--state', first.state, status=1))
    again = self.agent('first', '--listen', first.address())
    self.wait_log(again, 'admissions was missing')
    self.wait_log(again, 'starling admit ID')
    self.assertFalse((first.state / 'ticket').exists())
    self.assertIn('revoked for ever', self.command('admit', second.peer(), '--state', first.state, status=1))

  def test_revoked_while_no_holder_ran(self):
    first = self.first()
    second, third = self.member(first, 'second'), self.member(first, 'third')
    self.trained([first, second, third])
    first.kill()
    said = self.command('revoke', third.peer(), '--state', first.state)
    self.assertIn('no agent runs with this folder', said)
    again = self.agent('first', '--listen', first.address())
    self.wait_log(third, 'is revoked: the holder')
    self.trained([again, second])

  def test_a_registry_serves_it(self):
    first = self.first()
    port = swarm.free_port_pair()
    without = self.registry('without', port, '--bootstrap', first.address())
    self.wait_log(without, 'lets in nobody without a ticket', seconds=SOON)
    without.kill()
    registry = self.registry('registry', port, '--bootstrap', self.ticket(first, 'registry'))
    self.wait_log(registry, 'listens on')
    second, third = self.member(first, 'second'), self.member(first, 'third')
    self.assertFalse((self.folder / 'registry' / 'state' / 'swarm.key').exists())
    self.trained([first, second, third])
    registry.kill()
    self.wait_log(self.registry('registry', port), 'listens on')

  def test_forged_settings_are_not_taken(self):
    """By a newcomer that reaches no member but one with settings of its own making."""
    first = self.first()
    second, third = self.member(first, 'second'), self.member(first, 'third')
    self.trained([first, second, third])
    self.assertEqual(len((second.state / 'settings.sig').read_bytes()), 64)
    self.wait(lambda: second.peer() in (third.state / 'members').read_text(), 'the members to be stored')
    for agent in (first, second, third):
      agent.kill()
    text = (second.state / 'settings.yaml').read_text()
    self.assertIn('\n  local_steps: 2\n', text)
    (second.state / 'settings.yaml').write_text(text.replace('\n  local_steps: 2\n', '\n  local_steps: 3\n'))
    for agent in (second, third):
      shutil.rmtree(agent.state / 'checkpoints')
    (third.state / 'settings.yaml').unlink()
    liar = self.agent('second', '--listen', second.address(), '--alone')
    self.wait(lambda: len(liar.events('joined')) == 2, 'the liar to train')
    newcomer, began = self.agent('third'), time.time()
    self.wait(
      lambda: (said := liar.last('status'))['t'] > began and said['joins']['accepted'] > 0,
      'the newcomer to ask the liar',
    )
    swarm.pause(5)
    self.assertEqual(len(newcomer.events('joined')), 1, newcomer.log())
    again = self.agent('first', '--listen', first.address(), '--alone')
    self.wait(lambda: len(newcomer.events('joined')) == 2, 'the newcomer to join')
    self.assertEqual((third.state / 'settings.yaml').read_text(), text)
    self.trained([again, newcomer])

  def test_a_shared_ticket_cannot_be_taken_back(self):
    path = self.quadratic()
    path.write_text(path.read_text().replace('swarm:\n', 'swarm:\n  trust: ticket\n'))
    first = self.agent('first', '--config', path)
    self.joined(first)
    said = self.command('revoke', first.peer(), '--state', first.state, status=1)
    self.assertIn('share one ticket', said)
    self.assertIn('trust: certified', said)
    self.assertIn('pass that on', self.command('admit', 'a' * 64, '--state', first.state, status=1))


if __name__ == '__main__':
  swarm.main()
