"""Processes that train one model together, as torchrun starts them: rank 0 is the member, and the others follow it."""

import contextlib
import ctypes
import itertools
import os
import time

import torch
import torch.distributed as dist

from . import Swarm, _open
from . import _library as lib
from ._error import SwarmError

_LOOKS_S = (1e-4, 0.02)  # seconds between two looks for a message: the shortest, and the longest
_KEPT = 32  # messages in the store; a broadcast holds rank 0 until all have read all but the last few
_LAST_S = 3.0  # seconds that rank 0 waits for all to read its last message: the store may end with its process
_CLOSED_EARLY = 'has closed the swarm before finish(): see why its loop ended, and let all ranks end at the same step'
_STORE_CHECKS = dist.is_available() and hasattr(dist.Store, 'check')  # torch 2.0's cannot
_counted = itertools.count()  # the swarms of this process; all ranks join the same ones


class _Head(ctypes.Structure):
  _fields_ = [
    ('code', ctypes.c_int64),
    ('last', ctypes.c_int64),  # no message follows
    ('has_blocks', ctypes.c_int64),  # those follow, and the checkpoint
    ('state_size', ctypes.c_int64),  # of a checkpoint
    ('now', lib.Now),
    ('error', ctypes.c_char * 2000),
  ]


class _Message:
  """From rank 0 to all: what happened, and what is known. At a boundary the blocks too.

  The head goes by torch's store, where rank 0 never waits for the others: it may end when they are elsewhere.
  """

  def __init__(self, blocks):
    self.group, self.head, self.count = dist.new_group(backend='gloo'), _Head(), 0
    self.store = dist.PrefixStore(f'starling-{next(_counted)}', dist.distributed_c10d._get_default_store())
    self.parts = [
      torch.frombuffer(block.memory, dtype=torch.uint8, count=4 * block.count) for block in blocks if block.count > 0
    ]
    self.whole = torch.empty(sum(map(len, self.parts)), dtype=torch.uint8)

  def send(self, code, now, blocks=False, state=b'', error='', last=False):
    if self.head.last:
      return
    self.head.code, self.head.last, self.head.has_blocks, self.head.state_size = code, last, blocks, len(state)
    self.head.now, self.head.error = now, error.encode()[:1999]
    self.store.set(str(self.count), bytes(self.head))
    self.count += 1
    if not _STORE_CHECKS:
      self.store.add('sent', 1)
    if self.count > _KEPT:
      self.store.delete_key(str(self.count - 1 - _KEPT))
    if blocks:
      torch.cat(self.parts, out=self.whole)
      self._broadcast(self.whole)
    if state:
      self._broadcast(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    until = time.monotonic() + _LAST_S
    with contextlib.suppress(RuntimeError):
      while last and self.store.add('read', 0) < dist.get_world_size() - 1 and time.monotonic() < until:
        time.sleep(_LOOKS_S[1])
    self._let_go()

  def _broadcast(self, tensor):
    try:
      dist.broadcast(tensor, 0, self.group)
    except RuntimeError as error:
      raise SwarmError(f'another rank is gone: {error}; see what it printed, and start all again') from None

  def _let_go(self):
    """After the last one. A thread of the group may hold a tensor for a moment, and abort as the interpreter ends."""
    if self.head.last and self.group is not None:
      if dist.is_initialized():
        dist.destroy_process_group(self.group)
      self.group = self.store = None

  def receive(self):
    """The bytes of a checkpoint. The head and the blocks are what rank 0 has. Waits as long as rank 0 likes."""
    key, look = str(self.count), _LOOKS_S[0]
    try:
      while not (self.store.check([key]) if _STORE_CHECKS else self.store.add('sent', 0) > self.count):
        time.sleep(look)
        look = min(1.2 * look, _LOOKS_S[1])
      self.head = _Head.from_buffer_copy(self.store.get(key))
    except RuntimeError as error:  # the store was in the process of rank 0
      raise SwarmError(f'rank 0 is gone without a word: {error}; see what it printed, and start all again') from None
    self.count += 1
    if self.head.has_blocks:
      self._broadcast(self.whole)
      for part, got in zip(self.parts, self.whole.split([len(part) for part in self.parts])):
        part.copy_(got)
    state = bytearray(self.head.state_size)
    if state:
      self._broadcast(torch.frombuffer(state, dtype=torch.uint8))
    if self.head.last:
      with contextlib.suppress(RuntimeError):
        self.store.add('read', 1)
    self._let_go()
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
  _finishing = False

  @contextlib.contextmanager
  def _telling(self):
    try:
      yield
    except BaseException as error:
      if os.getpid() == self._owner:
        self._message.send(lib.FAILED, self._now, error=f'has failed: {type(error).__name__}: {error}', last=True)
      raise

  def _tell(self, last=False):
    state = self._state if self._code == lib.RESTORED else b''
    self._message.send(lib.OVER if self._over else self._code, self._look(), True, state, last=last)

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
      self._refuse_forked()
      self._finishing = True
      agreed = super().finish()
    self._tell(last=True)
    return agreed

  def leave(self):
    over = self._over
    super().leave()
    if not over:
      self._message.send(lib.OVER, self._look())

  def close(self):
    try:
      if self._handle is not None and os.getpid() == self._owner and not self._finishing:
        if self._over:
          self._message.send(lib.OVER, self._look(), last=True)
        else:
          self._message.send(lib.CLOSED, self._now, error=_CLOSED_EARLY, last=True)
    finally:
      super().close()


class Follower(Swarm):
  """Any other rank. It has no agent: it counts steps, and takes what rank 0 says at boundaries."""

  def _begin(self, config, overrides, timeout):
    self._message = _Message(self._blocks())
    self._receive()
    _open.add(self)

  def _receive(self):
    if not self._message.head.last:
      self._state = self._message.receive()
    head = self._message.head
    if head.code < 0:
      raise SwarmError(f'rank 0 {head.error.decode(errors="replace")}')
    self._now, self._left, self._over = head.now, head.now.steps_left, head.code == lib.OVER
    if not self._over:
      self._take_back(head.code)

  def step(self, loss=0.0, samples=0):
    self._refuse_forked()
    if self._over:
      return False
    if self._momentum is not None and not self._momentum.complete:
      self._momentum.gather()
    self.changed = False
    self._left -= 1
    if self._left <= 0:
      self._receive()
    return not self._over

  def finish(self):
    self._refuse_forked()
    if not self._finished:
      self._receive()
      while not self._message.head.last:
        self._receive()
      self._take_back(lib.OVER)
      self._finished = True
      self.close()
    return self._agreed()

  def leave(self):
    self._refuse_forked()
    self._over = True

  def close(self):
    _open.discard(self)

  def log(self, *_, **__):
    self._refuse_forked()

  def save(self, path):  # rank 0 does, and two would write one file
    self._refuse_forked()

  def _take_saved(self):  # rank 0 has sent it
    pass

  def _look(self):
    return self._now

  def _drain_log(self):
    pass
