"""Each kind of wrong ticket, at real agents: it is refused, the reason is named within seconds, and nothing else
happens, to either side."""

import base64
import hashlib
import os
import re
import subprocess
import time

import swarm

SOON = 10  # seconds, for a reason; the program says it within five, on a machine that does nothing else
KEY = re.compile(r'#[A-Za-z0-9_-]{20,}')
SWARM, DOOR, MEMBERSHIP, NOT_AFTER = 33, 65, 97, 130  # where they begin in a certified one: gossip/net/ticket.h


def bytes_of(key):
  return base64.urlsafe_b64decode(key + '=' * (-len(key) % 4))[:-4]


def key_of(*parts):
  """Of these bytes with the sum that belongs to them: what is left to refuse is what the ticket says."""
  content = b''.join(parts)
  total = hashlib.blake2b(b'starling ticket' + content, digest_size=32).digest()[:4]
  return base64.urlsafe_b64encode(content + total).decode().rstrip('=')


def with_other(key, at):
  """The key with one other character there."""
  return key[:at] + ('A' if key[at] != 'A' else 'B') + key[at + 1 :]


class Tickets(swarm.Case):
  def first(self, name, trust):
    path = self.quadratic(f'{name}.yaml')
    path.write_text(path.read_text().replace('swarm:\n', f'swarm:\n  trust: {trust}\n'))
    agent = self.agent(name, '--config', path)
    self.joined(agent)
    return agent

  def shared(self, name):
    """The first agent of a swarm that shares a ticket, the ticket's address, and its key."""
    agent = self.first(name, 'ticket')
    self.wait((agent.state / 'ticket').exists, 'the ticket')
    return agent, *(agent.state / 'ticket').read_text().strip().split('#')

  def command(self, *arguments):
    done = subprocess.run([swarm.PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder)
    self.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout.strip()

  def admitted(self, holder, name, *arguments):
    """The ticket of the agent that will have this name, in address and key."""
    own = self.command('key', '--state', self.folder / name / 'state')
    return self.command('admit', own, '--state', holder.state, *arguments).split('#')

  def all_refused(self, first, wrong):
    """wrong: {name: (what is typed after --bootstrap, whether the program ends, texts of the reason)}."""
    for names in [list(wrong)[i : i + 6] for i in range(0, len(wrong), 6)]:
      begun = {}
      for name in names:
        begun[name] = (time.monotonic(), self.joiner(name, wrong[name][0]))
      for name, (since, process) in begun.items():
        _, ends, *texts = wrong[name]
        with self.subTest(name):
          left = SOON - (time.monotonic() - since)
          self.wait_log(process, *texts, seconds=max(0, left))
          if ends:
            self.assertEqual(self.wait_end(process), 1, process.log())
          for made in ('settings.yaml', 'checkpoints'):
            self.assertFalse((process.state / made).exists())
          self.assertIsNone(process.last('joined'), process.log())
          self.assertEqual(process.steps(), 0)
          self.assertNotRegex(process.log(), KEY)
      for _, process in begun.values():
        process.kill()
    self.assertEqual(first.last('status')['peers'], 0)
    self.assertTrue(first.running())

  def test_of_a_shared_swarm(self):
    first, at, key = self.shared('first')
    other, _, others = self.shared('other')
    plain = self.first('plain', 'open')
    content, port = bytes_of(key), int(at.rpartition(':')[2])
    opened = 'the ticket does not open ' + at
    wrong = {
      'cut-1': (f'{at}#{key[:-1]}', True, 'is cut off: it has 91 characters'),
      'cut-half': (f'{at}#{key[:46]}', True, 'is cut off: it has 46 characters'),
      'nothing': (f'{at}#', True, 'there is no ticket behind the #'),
      'blank': (f'{at}#{key[:40]} {key[40:]}', True, 'a blank'),
      'line-break': (f'{at}#{key[:40]}\n{key[40:]}', True, 'a blank or a line break'),
      'line-end': (f'{at}#{key}\r\n', True, 'a blank or a line break'),
      'character': (f'{at}#{with_other(key, 40)}', True, 'a wrong character'),
      'last-character': (f'{at}#{with_other(key, 91)}', True, 'a wrong character'),
      'other-case': (f'{at}#{key.swapcase()}', True, 'a wrong character'),
      'upper-case': (f'{at}#{key.upper()}', True, 'a wrong character'),
      'encoded': (f'{at}%23{key}', True, 'URL-encoded'),
      'encoded-inside': (f'{at}#{key}%3D', True, 'URL-encoded'),
      'quoted': (f'"{at}#{key}"', True, 'no address HOST:PORT'),
      'of-a-mail': (f'{at}#{key}>', True, 'a character that no ticket has'),
      'doubled': (f'{at}#{key}{key}', True, 'too long: it has 184 characters'),
      'line-doubled': (f'{at}#{key}{at}#{key}', True, 'a character that no ticket has'),
      'no-address': (f'#{key}', True, 'no address HOST:PORT'),
      'key-alone': (key, True, 'is no address'),
      'no-port': (f'127.0.0.1#{key}', True, 'no address HOST:PORT'),
      'port-0': (f'127.0.0.1:0#{key}', True, 'no address HOST:PORT'),
      'port-70000': (f'127.0.0.1:70000#{key}', True, 'no address HOST:PORT'),
      'version-0': (f'{at}#{key_of(bytes([0]), content[1:])}', True, 'of version 0'),
      'version-4': (f'{at}#{key_of(bytes([4]), content[1:])}', True, 'of version 4, of a newer Starling'),
      'other-swarm': (f'{at}#{others}', False, opened, 'Ask for the ticket'),
      'other-seed': (f'{at}#{key_of(content[:1] + os.urandom(32) + content[33:])}', False, opened),
      'other-agent': (f'{at}#{key_of(content[:33] + bytes_of(others)[33:])}', False, opened),
      'open-swarm': (f'{plain.address()}#{key}', False, 'asks for no ticket'),
      'bulk-port': (f'127.0.0.1:{port + 1}#{key}', False, 'is the one for bulk data; name the one before'),
      'nobody-there': (f'127.0.0.1:{swarm.free_port_pair()}#{key}', False, 'no answer from'),
    }
    self.all_refused(first, wrong)
    self.assertEqual(other.last('status')['peers'], 0)

  def test_of_a_certified_swarm(self):
    first, other = self.first('first', 'certified'), self.first('other', 'certified')
    shared, shared_at, shared_key = self.shared('shared')
    at, key = self.admitted(first, 'good')
    content = bytes_of(key)
    expired = self.admitted(first, 'expired', '--for', '1s')
    ended = time.monotonic() + 2
    gone = self.admitted(first, 'gone')
    self.command('revoke', self.command('key', '--state', self.folder / 'gone/state'), '--state', first.state)
    others = self.admitted(other, 'other-swarm')
    door = bytes_of(self.admitted(other, 'spliced')[1])
    spliced = key_of(content[:SWARM], door[SWARM:DOOR], content[DOOR:MEMBERSHIP], door[MEMBERSHIP:])
    self.command('key', '--state', self.folder / 'thief/state')
    mine = bytes.fromhex(self.command('key', '--state', self.folder / 'own-id/state'))
    own = key_of(content[: MEMBERSHIP + 1], mine, content[NOT_AFTER:])
    short = bytes_of(expired[1])
    for_ever = key_of(short[:NOT_AFTER], bytes(8), short[NOT_AFTER + 8 :])
    not_signed = 'has not signed this ticket'
    swarm.pause(max(0, ended - time.monotonic()))
    wrong = {
      'cut': (f'{at}#{key[:-3]}', True, 'is cut off: it has 283 characters'),
      'character': (f'{at}#{with_other(key, 200)}', True, 'a wrong character'),
      'doubled': (f'{at}#{key}{key}', True, 'too long: it has 572 characters'),
      'thief': (f'{at}#{key}', True, 'the ticket is for the agent ', 'starling admit'),
      'own-id': (f'{at}#{own}', True, not_signed),
      'for-ever': (f'{at}#{for_ever}', True, not_signed),
      'no-membership': (f'{at}#{key_of(content[:MEMBERSHIP] + bytes(113))}', True, not_signed),
      'identity-missing': (f'{at}#{key_of(bytes([3]), content[1:])}', True, 'a wrong character'),
      'expired': ('#'.join(expired), True, 'the ticket has expired on', 'starling admit'),
      'gone': ('#'.join(gone), True, 'is revoked: the holder'),
      'other-swarm': (f'{at}#{others[1]}', False, 'the ticket does not open ' + at),
      'spliced': (f'{at}#{spliced}', False, 'breaks off each link', 'starling admit'),
      'shared-here': (f'{at}#{shared_key}', False, 'the ticket does not open ' + at),
      'good': (f'{shared_at}#{key}', False, 'the ticket does not open ' + shared_at),
    }
    self.all_refused(first, wrong)
    self.wait_log(first, 'shows a membership that the swarm\'s key has not signed', seconds=SOON)
    self.assertEqual((other.last('status')['peers'], shared.last('status')['peers']), (0, 0))
    # The same ticket at the right place is a good one.
    good = self.joiner('good', f'{at}#{key}')
    self.joined(good, 'fetched')


if __name__ == '__main__':
  swarm.main()
