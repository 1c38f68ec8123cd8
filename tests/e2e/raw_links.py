"""TCP links that speak ZeroMQ's protocol by hand, as far as a test wants and no further: with mechanism NULL, as to an
agent of an open swarm, or with CURVE (RFC 26), as to one with tickets."""

import base64
import ctypes
import ctypes.util
import os
import socket
import struct

KEY, NONCE, MAC, SIGNATURE = 32, 24, 16, 64
MEMBERSHIP = 1 + 32 + 8 + 8 + 64  # bytes: gossip/net/member_keys.h


def connect(port, source=None):
  link = socket.create_connection(('127.0.0.1', port), timeout=5, source_address=source and (source, 0))
  link.settimeout(5)
  return link


def push(link, data):
  """Sends what the other side takes; it may hang up at any byte."""
  try:
    link.sendall(data)
    return True
  except OSError:
    return False


def read(link, count):
  data = b''
  while len(data) < count:
    piece = link.recv(count - len(data))
    if not piece:
      raise ConnectionError('hung up in the handshake')
    data += piece
  return data


def hang_up(link):
  """Ends our side and reads out the other's: closed with bytes unread, the kernel may drop what is still on its way."""
  try:
    link.shutdown(socket.SHUT_WR)
    while link.recv(1 << 16):
      pass
  except OSError:
    pass


def greeting(mechanism=b'NULL'):
  """ZMTP 3.0."""
  return b'\xff' + bytes(8) + b'\x7f\x03\x00' + mechanism.ljust(20, b'\0') + bytes(32)


def frame(data, more=False, command=False):
  flags = (1 if more else 0) | (4 if command else 0)
  if len(data) < 256:
    return bytes([flags, len(data)]) + data
  return bytes([flags | 2]) + struct.pack('>Q', len(data)) + data


def long_frame(size):
  return b'\x02' + struct.pack('>Q', size)


def answer(link):
  """The next command of the other side."""
  long = read(link, 1)[0] & 2
  size = struct.unpack('>Q', read(link, 8))[0] if long else read(link, 1)[0]
  return read(link, size)


def metadata(socket_type=b'DEALER', identity=b''):
  properties = ((b'Socket-Type', socket_type), (b'Identity', identity))
  return b''.join(bytes([len(name)]) + name + struct.pack('>I', len(value)) + value for name, value in properties)


def ready(**properties):
  return frame(b'\x05READY' + metadata(**properties), command=True)


def greet(port, mechanism, source=None):
  """A link after the greetings. They are waited for: libzmq hangs up on what comes before it has answered."""
  link = connect(port, source)
  link.sendall(greeting(mechanism))
  read(link, len(greeting()))
  return link


class Plain:
  """A link to an open swarm after its handshake, or, with `asked`, before the other side has answered."""

  def __init__(self, port, source=None, asked=False):
    self.link = greet(port, b'NULL', source)
    self.link.sendall(ready())
    if not asked:
      answer(self.link)

  def parts(self, data, count, more):
    return frame(data, more) * count


class Sodium:
  """The functions of libsodium that the handshake needs."""

  def __init__(self):
    self.library = ctypes.CDLL(ctypes.util.find_library('sodium') or 'libsodium.so.23')
    if self.library.sodium_init() < 0:
      raise OSError('libsodium found no random numbers')

  def call(self, function, size, *arguments):
    """The `size` bytes that the function writes first."""
    out = ctypes.create_string_buffer(size)
    if getattr(self.library, function)(out, *arguments) != 0:
      raise ValueError(function)
    return out.raw

  def key_pair(self):
    secret = os.urandom(KEY)
    return self.call('crypto_scalarmult_base', KEY, secret), secret

  def pair_of(self, seed):
    secret = ctypes.create_string_buffer(KEY)
    return self.call('crypto_box_seed_keypair', KEY, secret, seed), secret.raw

  def box(self, data, nonce, public, secret):
    return self.call(
      'crypto_box_easy', MAC + len(data), data, ctypes.c_ulonglong(len(data)), nonce.ljust(NONCE), public, secret
    )

  def open(self, box, nonce, public, secret):
    return self.call('crypto_box_open_easy', len(box) - MAC, box, ctypes.c_ulonglong(len(box)), nonce, public, secret)

  def id_of(self, seed):
    return self.call('crypto_sign_seed_keypair', KEY, ctypes.create_string_buffer(2 * KEY), seed)

  def sign(self, text, seed):
    secret = ctypes.create_string_buffer(2 * KEY)
    self.call('crypto_sign_seed_keypair', KEY, secret, seed)
    return self.call('crypto_sign_detached', SIGNATURE, None, text, ctypes.c_ulonglong(len(text)), secret)


class Ticket:
  """One of `starling admit --new`: gossip/net/ticket.h."""

  def __init__(self, text):
    self.address, key = text.strip().split('#')
    raw = base64.urlsafe_b64decode(key + '=' * (-len(key) % 4))
    assert raw[0] == 3, 'a ticket with an identity'
    self.at, self.door = raw[1:33], raw[65:97]
    self.membership, self.seed = raw[97 : 97 + MEMBERSHIP], raw[97 + MEMBERSHIP :][:KEY]
    self.own = self.membership[1:33]

  def proof(self, sodium, reader):
    told = self.membership + os.urandom(16)
    return told + sodium.sign(b'starling link 1' + reader + told, self.seed)


class Curve:
  """A link to the agent of this id in a swarm with tickets, after its handshake: of the ticket's member, or, without a
  ticket, of an outsider that knows the id. `asked`: as above. Raises ConnectionError where it is not let in."""

  def __init__(self, port, reader, ticket=None, sodium=None, source=None, asked=False):
    sodium = sodium or Sodium()
    server = sodium.call('crypto_sign_ed25519_pk_to_curve25519', KEY, reader)
    own_public, own_secret = sodium.pair_of(ticket.door) if ticket else sodium.key_pair()
    public, secret = sodium.key_pair()
    self.link = greet(port, b'CURVE', source)
    hello = sodium.box(bytes(64), b'CurveZMQHELLO---' + struct.pack('>Q', 1), server, secret)
    self.link.sendall(frame(b'\x05HELLO\x01\x00' + bytes(72) + public + struct.pack('>Q', 1) + hello, command=True))
    welcome = answer(self.link)
    opened = sodium.open(welcome[24:], b'WELCOME-' + welcome[8:24], server, secret)
    session, cookie = opened[:KEY], opened[KEY:]
    nonce = os.urandom(16)
    vouch = sodium.box(public + server, b'VOUCH---' + nonce, session, own_secret)
    identity = ticket.proof(sodium, reader) if ticket else b''
    initiate = own_public + nonce + vouch + metadata(identity=identity)
    box = sodium.box(initiate, b'CurveZMQINITIATE' + struct.pack('>Q', 2), session, secret)
    self.link.sendall(frame(b'\x08INITIATE' + cookie + struct.pack('>Q', 2) + box, command=True))
    if not asked and not answer(self.link).startswith(b'\x05READY'):
      raise ConnectionError('not let in')
    self.key = sodium.call('crypto_box_beforenm', KEY, session, secret)
    self.seal, self.number = sodium.library.crypto_box_easy_afternm, 2

  def parts(self, data, count, more):
    plain = (b'\x01' if more else b'\x00') + data
    out, size = ctypes.create_string_buffer(MAC + len(plain)), ctypes.c_ulonglong(len(plain))
    sent = []
    for _ in range(count):
      self.number += 1
      number = struct.pack('>Q', self.number)
      self.seal(out, plain, size, b'CurveZMQMESSAGEC' + number, self.key)
      sent.append(frame(b'\x07MESSAGE' + number + out.raw))
    return b''.join(sent)
