"""link_relay's commands: each changes one node's link in mid-run and no other, as datagrams between namespaces show."""

import ctypes
import json
import os
import pathlib
import socket
import subprocess
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELAY = os.environ.get('LINK_RELAY', str(ROOT / 'build/meson/tools/experiments/link_relay'))
CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE = 33
PATIENCE_S = 10  # of a loaded machine
MAY = os.geteuid() == 0 and os.access('/dev/net/tun', os.R_OK | os.W_OK)


def socket_in(node):
  """A datagram socket on a node; it stays in that namespace, whoever uses it."""
  made = []

  def make():
    with open(node['namespace'], 'rb') as namespace:
      if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'setns')
    made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    made[0].setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)  # the receiver never loses what the link brought
    made[0].bind((node['address'], 5000))

  thread = threading.Thread(target=make)
  thread.start()
  thread.join()
  return made[0]


@unittest.skipUnless(MAY, 'needs root and /dev/net/tun')
class Links(unittest.TestCase):
  def setUp(self):
    command = [RELAY, '--nodes', '3', '--delay-ms', '5']
    self.relay = subprocess.Popen(
      command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    self.addCleanup(self.end)
    line = self.relay.stdout.readline()
    if not line:
      self.skipTest(self.relay.stderr.read())
    self.sockets = [socket_in(node) for node in json.loads(line)['nodes']]

  def end(self):
    for one in getattr(self, 'sockets', []):
      one.close()
    self.relay.stdin.close()
    self.relay.wait(timeout=PATIENCE_S)
    self.relay.stdout.close()
    self.relay.stderr.close()

  def tell(self, *commands):
    """All of them are done when the relay has complained about the last line."""
    self.relay.stdin.write(''.join(command + '\n' for command in commands) + 'done?\n')
    self.relay.stdin.flush()
    said = []
    while "'done?'" not in (said or [''])[-1]:
      said.append(self.relay.stderr.readline())
    return said[:-1]

  def send(self, a, b, count=1, size=100):
    for i in range(count):
      self.sockets[a].sendto(i.to_bytes(4, 'big') + bytes(size - 4), (f'10.77.0.{b + 1}', 5000))

  def receive(self, b, count, wait=PATIENCE_S):
    """How many of `count` datagrams came, and when the last of them had."""
    self.sockets[b].settimeout(wait)
    got = 0
    try:
      while got < count:
        self.sockets[b].recv(2000)
        got += 1
    except socket.timeout:
      pass
    return got, time.monotonic()

  def trip_ms(self, a, b):
    """The shortest of several one-way trips: the others waited for a processor."""
    trips = []
    for _ in range(7):
      begin = time.monotonic()
      self.send(a, b)
      got, end = self.receive(b, 1)
      self.assertEqual(got, 1)
      trips.append(1e3 * (end - begin))
    return min(trips)

  def test_delay_of_one_node(self):
    before = self.trip_ms(0, 1)
    self.assertGreaterEqual(before, 5)
    self.tell('delay 1 60')
    self.assertGreaterEqual(self.trip_ms(0, 1), 60)
    self.assertGreaterEqual(self.trip_ms(1, 0), 60)
    self.assertLess(self.trip_ms(0, 2), 55)  # not behind what flies to node 1
    self.tell('delay 1 0')
    self.assertLess(self.trip_ms(0, 1), 55)

  def test_packets_to_a_nearer_node_overtake(self):
    self.tell('delay 1 5000')
    self.send(0, 1)
    self.send(0, 2)
    self.assertEqual(self.receive(2, 1)[0], 1)
    self.assertEqual(self.receive(1, 1, wait=0.01)[0], 0, 'it was sent first, and comes later')

  def test_rate_of_one_node(self):
    count = 20  # so many fit the queue of an uplink

    def takes_s(a, b):
      begin = time.monotonic()
      self.send(a, b, count, 1000)
      got, end = self.receive(b, count)
      self.assertEqual(got, count)
      return end - begin

    self.tell('rate 2 1')
    self.assertGreaterEqual(takes_s(0, 2), (count - 1) * 1000 * 8 / 1e6)  # the first one's first bit came as it left
    self.assertGreaterEqual(takes_s(2, 0), count * 1000 * 8 / 1e6)
    self.assertLess(takes_s(0, 1), count * 1000 * 8 / 1e6)
    self.tell('rate 2 0')
    self.assertLess(takes_s(0, 2), count * 1000 * 8 / 1e6)
    self.assertLess(takes_s(2, 0), count * 1000 * 8 / 1e6)

  def test_loss_of_one_node(self):
    self.tell('loss 1 0.5')
    for a, b in ((0, 1), (1, 0)):
      self.send(a, b, 400)
      self.assertIn(self.receive(b, 400, wait=1)[0], range(140, 261))  # 6 standard deviations
    self.send(0, 2, 400)
    self.assertEqual(self.receive(2, 400)[0], 400)
    self.tell('loss 1 0')
    self.send(0, 1, 400)
    self.assertEqual(self.receive(1, 400)[0], 400)

  def test_a_cut_drops_what_is_on_its_way_and_heals(self):
    self.tell('delay all 300')
    self.send(0, 1)
    self.send(1, 0)
    self.send(0, 2)
    self.tell('cut 1')
    self.assertEqual(self.receive(2, 1)[0], 1)
    self.send(0, 1)
    self.send(1, 0)
    self.assertEqual(self.receive(1, 1, wait=0.5)[0], 0)
    self.assertEqual(self.receive(0, 1, wait=0.1)[0], 0)
    self.tell('heal 1')
    self.send(0, 1)
    self.assertEqual(self.receive(1, 1)[0], 1)

  def test_two_sides_hear_nothing_of_each_other(self):
    self.tell('side 1 1', 'side 2 1')
    self.send(0, 1)
    self.send(2, 0)
    self.send(1, 2)
    self.assertEqual(self.receive(2, 1)[0], 1)
    self.assertEqual(self.receive(1, 1, wait=0.5)[0], 0)
    self.assertEqual(self.receive(0, 1, wait=0.1)[0], 0)
    self.tell('side all 0')
    self.send(0, 1)
    self.assertEqual(self.receive(1, 1)[0], 1)

  def test_commands_for_all_and_in_pieces(self):
    self.tell('delay all 60')
    self.assertGreaterEqual(self.trip_ms(0, 2), 60)
    self.relay.stdin.write('delay a')
    self.relay.stdin.flush()
    self.assertEqual(self.tell('ll 5', 'cut 2', 'heal 2'), [])
    self.assertLess(self.trip_ms(0, 2), 55)

  def test_what_it_does_not_understand_changes_nothing(self):
    for line in (
      'rate 5',
      'rate 3 5',
      'rate -1 5',
      'rate x 5',
      'rate 1 fast',
      'rate 1 -5',
      'loss 1 1',
      'cut 1 5',
      'delay 1 500 1',
      'hurry 1 5',
      'cut',
      '',
    ):
      said = self.tell(line)
      self.assertEqual(len(said), 1, line)
      self.assertIn(f"do not understand '{line}'", said[0])
    self.assertLess(self.trip_ms(0, 1), 55)


if __name__ == '__main__':
  unittest.main()
