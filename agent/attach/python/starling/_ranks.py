"""Processes that train one model together, as torchrun starts them: rank 0 is the member, and the others follow it."""

import contextlib
import ctypes
import datetime
import os

import torch
import torch.distributed as dist

from . import Swarm, _open
from . import _library as lib
from ._error import SwarmError

_PATIENCE = datetime.timedelta(days=365)  # rank 0 waits as long for members as it likes


class _Head(ctypes.Structure):
  _fields_ = [
    ('code', ctypes.c_int64),
    ('state_size', ctypes.c_int64),  # of a checkpoint, which is a message of its own
    ('now', lib.Now),
    ('error', ctypes.c_char * 2000),
  ]


class _Message:
  """From rank 0 to all, at each boundary: what happened, what is known, and the blocks."""

  def __init__(self, blocks):
    self.group, self.head = dist.new_group(backend='gloo', timeout=_PATIENCE), _Head()
    parts = [(self.head, ctypes.sizeof(_Head)), *((block.memory, 4 * block.count) for block in blocks)]
    self.parts = [torch.frombuffer(memory, dtype=torch.uint8, count=size) for memory, size in parts if size > 0]
    self.whole = torch.empty(sum(map(len, self.parts)), dtype=torch.uint8)

  def send(self, code, now, state=b'', error=''):
    self.head.code, self.head.state_size, self.head.now = code, len(state), now
    self.head.error = error.encode()[:1999]
    torch.cat(self.parts, out=self.whole)
    dist.broadcast(self.whole, 0, self.group)
    if state:
      dist.broadcast(torch.frombuffer(bytearray(state), dtype=torch.uint8), 0, self.group)

  def receive(self):
    """The bytes of a checkpoint. The head and the blocks are what rank 0 has."""
    dist.broadcast(self.whole, 0, self.group)
    for part, got in zip(self.parts, self.whole.split([len(part) for part in self.parts])):
      part.copy_(got)
    state = bytearray(self.head.state_size)
    if state:
      dist.broadcast(torch.frombuffer(state, dtype=torch.uint8), 0, self.group)
    return bytes(state)


def swarm_class():
  """What join() makes in this process."""
  if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
    return Leader if dist.get_rank() == 0 else Follower
  if int(os.environ.get('WORLD_SIZE', 1)) > 1 and 'RANK' in os.environ:
    raise SwarmError(
      f'this is one of {os.environ["WORLD_SIZE"]} processes (WORLD_SIZE), and would be a member of its own: call '
      'torch.distributed.init_process_group() before join()'
    )
  return Swarm


class Leader(Swarm):
  """Rank 0."""

  WHOLE_ROUNDS = True
  _code = lib.GO

  @contextlib.contextmanager
  def _telling(self):
    try:
      yield
    except BaseException as error:
      self._message.send(lib.FAILED, self._now, error=f'{type(error).__name__}: {error}')
      raise

  def _tell(self):
    state = self._state if self._code == lib.RESTORED else b''
    self._message.send(lib.OVER if self._over else self._code, self._look(), state)

  def _open(self, config, overrides):
    self._message = _Message(self._blocks())
    with self._telling():
      super()._open(config, overrides)

  def _wait(self, result, until=None):
    with self._telling():
      super()._wait(result, until)
    self._tell()

  def _take_back(self, result):
    super()._look()
    super()._take_back(result)
    self._code = result

  def _look(self):  # between two boundaries all ranks know the same
    return self._now if self._has_turn else super()._look()

  def step(self, loss=0.0, samples=0):
    return super().step(loss, samples * dist.get_world_size())

  def finish(self):
    if self._handle is None:
      return super().finish()
    with self._telling():
      agreed = super().finish()
    self._tell()
    return agreed


class Follower(Swarm):
  """Any other rank. It has no agent: it counts steps, and takes what rank 0 says at boundaries."""

  def _begin(self, config, overrides, timeout):
    self._message = _Message(self._blocks())
    self._receive()
    _open.add(self)

  def _receive(self):
    self._state = self._message.receive()
    head = self._message.head
    if head.code < 0:
      raise SwarmError(f'rank 0 has failed: {head.error.decode(errors="replace")}')
    self._now, self._left, self._over = head.now, head.now.steps_left, head.code == lib.OVER
    if not self._over:
      self._take_back(head.code)

  def step(self, loss=0.0, samples=0):
    if self._over:
      return False
    if self._momentum is not None and not self._momentum.complete:
      self._momentum.gather()
    self.changed = False
    self._left -= 1
    if self._left == 0:
      self._receive()
    return not self._over

  def finish(self):
    if not self._finished:
      self._receive()
      self._take_back(lib.OVER)
      self._finished = True
      self.close()
    return self._agreed()

  def leave(self):
    self._over = True

  def close(self):
    _open.discard(self)

  def log(self, *_, **__):
    pass

  def save(self, path):  # rank 0 does, and two would write one file
    pass

  def _take_saved(self):  # rank 0 has sent it
    pass

  def _look(self):
    return self._now

  def _drain_log(self):
    pass
