"""What links carry when every node sends to every other at once, as agents do in a round."""

import ctypes
import socket
import statistics
import threading
import time

from lib import Links

CLONE_NEWNET = 0x40000000
PORT, PIECE = 5010, 1 << 16
PATIENCE_S = 60
PAUSE_S = 0.3  # before each exchange, as a forward pass has its streams idle


def in_namespace(node, function):
  """What function() returns, called on a node. A socket stays where it was made, whoever uses it."""
  found = []

  def run():
    with open(node["namespace"], "rb") as namespace:
      if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise SystemExit(f"check: cannot enter a namespace (errno {ctypes.get_errno()}); run as root")
    found.append(function())

  all_at_once([run])
  return found[0]


def all_at_once(functions):
  threads = [threading.Thread(target=function, daemon=True) for function in functions]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(PATIENCE_S)
    if thread.is_alive():
      raise SystemExit(f"check: an exchange took more than {PATIENCE_S} s; the links are too thin for it")


def connect(nodes):
  """A stream from each node to each other one: (sender's end, receiver's end)."""
  doors = [
    in_namespace(node, lambda at=node["address"]: socket.create_server((at, PORT), backlog=len(nodes)))
    for node in nodes
  ]
  streams = []
  for a, sender in enumerate(nodes):
    for b, receiver in enumerate(nodes):
      if a == b:
        continue
      out = in_namespace(sender, lambda to=receiver["address"]: socket.create_connection((to, PORT), 10))
      streams.append((out, doors[b].accept()[0]))
  for door in doors:
    door.close()
  for ends in streams:
    for end in ends:
      end.settimeout(PATIENCE_S)
  return streams


def exchange_s(streams, size):
  """Seconds until all have sent `size` bytes over each stream and all have come."""
  data = memoryview(bytes(size))
  ends = []

  def receive(stream):
    left = size
    while left > 0:
      got = len(stream.recv(min(left, PIECE)))
      if got == 0:
        raise SystemExit("check: a stream ended")
      left -= got
    ends.append(time.monotonic())

  begin = time.monotonic()
  all_at_once(
    [lambda out=out: out.sendall(data) for out, _ in streams] + [lambda into=into: receive(into) for _, into in streams]
  )
  return max(ends) - begin


def check_streams(nodes, delay_ms, rate_mbit, seconds, exchanges=8):
  """Mb/s of a node's uplink, median of exchanges in each of which it sends as much as the link would carry in
  `seconds`, in equal parts to all others, and all others do so too; until the last byte is there, less the delay."""
  size = max(1, int(seconds * rate_mbit * 1e6 / 8 / (nodes - 1)))
  with Links(nodes, delay_ms, rate_mbit) as links:
    streams = connect(links.nodes)
    try:
      took = []
      for _ in range(exchanges + 1):
        time.sleep(PAUSE_S)
        took.append(exchange_s(streams, size) - 1e-3 * delay_ms)
    finally:
      for ends in streams:
        for end in ends:
          end.close()
  rates = [(nodes - 1) * size * 8e-6 / one for one in took[1:]]  # the first begins with streams that know nothing
  return {"rate_mbit": statistics.median(rates), "slowest_mbit": min(rates), "fastest_mbit": max(rates)}
