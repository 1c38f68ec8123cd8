"""An outsider with sockets: raw bytes at both ports of an agent, by hand, where the stranger speaks the protocol.

outsider.py --list                       the attacks, a line each
outsider.py ATTACK HOST:PORT[#TICKET] [--seconds S] [--seed N] [--sink HOST:PORT]

A ticket, of `starling admit --new`, says that the swarm has tickets. The outsider takes no more of it than the agent's
id, which is no secret. `endless`, `blocks`, `empty`, `beside` and `idle` are then of the ticket's member: no other gets
as far. `--sink`: all goes there, to `stranger sink` with the same ticket. Prints "ready" when it begins, and what it
has done each second.
"""

import argparse
import collections
import os
import pathlib
import random
import resource
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tests/e2e'))
import raw_links as raw

HALF_OPEN, IDLE, HOSTS = 200, 2000, 50  # links, links, and the hosts that they come from
BLOCK = 4 << 20  # the most that a part may have at the port for bulk data
HANDSHAKES, WORKERS = 600, 12  # a second, and the threads that make them


class Siege:
  def __init__(self, options):
    target, _, ticket = options.target.partition('#')
    port = int((options.sink or target).rpartition(':')[2])
    self.ports = (port, port + 1)
    self.ticket = raw.Ticket(options.target) if ticket else None
    self.reader = self.ticket and (self.ticket.own if options.sink else self.ticket.at)
    self.sodium = raw.Sodium() if ticket else None
    self.mechanism = b'CURVE' if ticket else b'NULL'
    self.rng = random.Random(options.seed)
    self.end = time.monotonic() + options.seconds
    self.acts = self.bytes = 0

  def goes_on(self):
    return time.monotonic() < self.end

  def report(self):
    began = time.monotonic()
    while self.goes_on():
      time.sleep(1)
      took = time.monotonic() - began
      print(f'{self.acts / took:.1f} links and {self.bytes / took / 2**20:.1f} MiB a second', flush=True)

  def host(self):
    return f'127.0.0.{2 + self.acts % HOSTS}'

  def connect(self, port):
    self.acts += 1
    link = raw.connect(port, self.host())
    link.settimeout(1)
    return link

  def push(self, link, data):
    self.bytes += len(data)
    return raw.push(link, data)

  def enter(self, port, ticket=True, asked=False):
    """A link after the handshake, or None. `asked`: the other side may never answer."""
    self.acts += 1
    try:
      if self.ticket:
        return raw.Curve(port, self.reader, self.ticket if ticket else None, self.sodium, self.host(), asked)
      return raw.Plain(port, self.host(), asked)
    except (OSError, ValueError):
      return None


def keep_open(siege, count, open_one, each=lambda link: True, every=0.05):
  """So many links at once; one that is closed is opened again. `each`: done to every link now and then."""
  links = collections.deque()
  while siege.goes_on():
    for _ in range(len(links)):
      link = links.popleft()
      if each(link) and not closed(link):
        links.append(link)
      else:
        link.close()
    for _ in range(count - len(links)):
      link = open_one()
      if link:
        links.append(link)
      if not siege.goes_on():
        break
    time.sleep(every)


def closed(link):
  link.setblocking(False)
  try:
    while data := link.recv(1 << 16):
      pass
    return not data
  except BlockingIOError:
    return False
  except OSError:
    return True
  finally:
    link.settimeout(1)


def half_open(siege):
  """200 links send 4 MiB of a handshake each, and never its last byte"""
  begun = b'\x06' + struct.pack('>Q', BLOCK) + b'\x05READY' + bytes(BLOCK - 7)

  def open_one():
    try:
      link = siege.connect(siege.ports[1])
      raw.push(link, raw.greeting(siege.mechanism))
      raw.read(link, 64)
    except OSError:
      return None
    siege.push(link, begun)
    return link

  keep_open(siege, HALF_OPEN, open_one)


def flood(siege, port, data, count, more):
  """Parts without end at one link; where it is cut, at the next one."""
  while siege.goes_on():
    entered = siege.enter(port)
    if not entered:
      time.sleep(0.01)
      continue
    while siege.goes_on() and siege.push(entered.link, entered.parts(data, count, more)):
      pass
    entered.link.close()


def endless(siege):
  """one link sends a message of 1 KB parts that never ends"""
  flood(siege, siege.ports[0], bytes(1000), 256, True)


def blocks(siege):
  """one link sends a message of 1 MiB parts that never ends"""
  flood(siege, siege.ports[1], bytes(1 << 20), 1, True)


def empty(siege):
  """one link sends empty frames as fast as they are taken"""
  flood(siege, siege.ports[0], b'', 4000, False)


def beside(siege):
  """one link as `blocks`, beside one as `empty`, so that its reader is always busy"""
  other = threading.Thread(target=empty, args=[siege])
  other.start()
  blocks(siege)
  other.join()


def idle(siege):
  """2,000 links stay silent after the handshake"""

  def open_one():
    entered = siege.enter(siege.ports[siege.acts % 2], asked=True)
    return entered and entered.link

  keep_open(siege, IDLE, open_one)


def slow(siege):
  """2,000 links send a byte of a handshake now and then"""

  def open_one():
    try:
      link = siege.connect(siege.ports[siege.acts % 2])
    except OSError:
      return None
    siege.push(link, b'\xff')
    return link

  keep_open(siege, IDLE, open_one, each=lambda link: siege.push(link, b'\0'), every=0.3)


def handshakes(siege):
  """600 handshakes a second: with another key than the swarm's where there are tickets, else ended at once"""

  def work():
    due = time.monotonic()
    while siege.goes_on():
      due = max(due + WORKERS / HANDSHAKES, time.monotonic() - 0.1)
      time.sleep(max(0, due - time.monotonic()))
      entered = siege.enter(siege.ports[siege.acts % 2], ticket=False, asked=not siege.ticket)
      if entered:
        entered.link.close()

  workers = [threading.Thread(target=work) for _ in range(WORKERS)]
  for worker in workers:
    worker.start()
  for worker in workers:
    worker.join()


def inputs(siege):
  """40 kinds of bytes that are no handshake, or no more than half of one"""
  links = collections.deque()
  while siege.goes_on():
    for begin, rest in kinds_of_input(siege):
      for port in siege.ports:
        try:
          link = siege.connect(port)
        except OSError:
          continue
        links.append(link)
        link.settimeout(0.1)
        if begin:
          siege.push(link, begin)
          try:
            raw.read(link, 64)
          except OSError:
            continue  # silent, or hung up
        siege.push(link, rest)
        if siege.acts % 7 == 0:
          raw.push(link, rest * 3)
        while len(links) > HALF_OPEN:
          links.popleft().close()


def kinds_of_input(siege):
  """Pairs: a greeting, and what follows when it was answered; without a greeting, what comes instead."""
  rng, proper = siege.rng, raw.greeting(siege.mechanism)
  command, frame = lambda data: raw.frame(data, command=True), raw.frame
  kinds = [(b'', rng.randbytes(size)) for size in (1, 63, 64, 1000, 100_000)]
  kinds += [
    (b'', b'GET / HTTP/1.1\r\nHost: x\r\n\r\n' * 200),
    (b'', bytes.fromhex('16030100fa010000f60303') + rng.randbytes(240)),  # of TLS
    (b'', b'\x01\x00' + b'\x05\x00abcd' * 1000),  # of ZMTP 1
    (b'', b'\xff' + bytes(8) + b'\x7f\x01\x05' + b'\0\0' + frame(bytes(100)) * 50),  # of ZMTP 2
    (b'', proper[: rng.randrange(1, 63)]),
  ]
  for mechanism in (b'NULL', b'PLAIN', b'CURVE', b'GSSAPI', b'\xff' * 20):
    kinds.append((raw.greeting(mechanism), command(b'\x05HELLO\x04abcd\x04abcd')))
  kinds.append((raw.greeting(b'CURVE'), command(b'\x05HELLO\x01\x00' + bytes(72) + rng.randbytes(32 + 8 + 80))))
  for kind in (b'PUB', b'ROUTER', b'REQ', b'', bytes(200)):
    kinds.append((proper, raw.ready(socket_type=kind) + frame(b'hello') * 20))
  for identity in (b'x' * 255, b'y' * 256, b'\0abc', b'same', b'z' * 60_000):
    kinds.append((proper, raw.ready(identity=identity) + frame(b'hello') * 20))
  for size in (0xFFFFFFFF, 0x7FFFFFFF, 1 << 20):
    kinds.append((proper, command(b'\x05READY\x0bSocket-Type' + struct.pack('>I', size) + b'DEALER')))
  for size in ((1 << 64) - 1, (1 << 63) - 1, 1 << 40, 1 << 32):
    kinds.append((proper, raw.long_frame(size) + bytes(1 << 16)))
    kinds.append((proper, b'\x06' + struct.pack('>Q', size) + bytes(1 << 16)))
  for data in (b'\x05ERROR\x03400', b'\x04PING' + bytes(5000), b'\x09SUBSCRIBEx', b'\xc8' + bytes(200), b''):
    kinds.append((proper, command(data) * 50))
  kinds.append((proper, frame(bytes(1000), more=True) * 1000))
  return kinds


ATTACKS = (half_open, endless, blocks, empty, beside, idle, slow, handshakes, inputs)


def main():
  if sys.argv[1:] == ['--list']:
    for attack in ATTACKS:
      print(f'{attack.__name__:<18} {attack.__doc__}')
    return
  parser = argparse.ArgumentParser()
  parser.add_argument('attack', choices=[attack.__name__ for attack in ATTACKS])
  parser.add_argument('target')
  parser.add_argument('--seconds', type=float, default=10)
  parser.add_argument('--seed', type=int, default=1)
  parser.add_argument('--sink')
  options = parser.parse_args()
  most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
  resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 16384), most))
  siege = Siege(options)
  print(f'ready: {options.attack}, process {os.getpid()}', flush=True)
  threading.Thread(target=siege.report, daemon=True).start()
  globals()[options.attack](siege)


if __name__ == '__main__':
  main()
