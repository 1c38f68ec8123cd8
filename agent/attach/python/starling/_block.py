"""One block of memory under a model's tensors. Each keeps a storage of its own over its part, so that saving one does
not write the whole block; Parameter objects stay, so an optimizer built before or after does not notice. Those on a GPU
or of another type than float32 stay where they are, and are copied in and out at boundaries; what their type rounds off
is kept."""

import contextlib
import ctypes
import mmap

import torch

ALIGN = 64  # bytes


def is_cuda(tensor):
  """Whether copies of it may land later; of other devices they have landed when copy_() returns."""
  return tensor.device.type == 'cuda'


class Block:
  """Tensors, by name, as float32 in one block. `count`: elements, padding included. Nothing moves before move()."""

  def __init__(self, named):
    self.slots, size = [], 0
    for name, tensor in named:
      self.slots.append((name, tensor, size))
      size += -(-4 * tensor.numel() // ALIGN) * ALIGN
    self.count = size // 4
    # Private: in a shared one a forked child would write its parent's params.
    self.memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
    self.views = {name: self._view(tensor.shape, tensor.numel(), offset) for name, tensor, offset in self.slots}
    self.copied = {
      name: Copied(self.views[name], tensor)
      for name, tensor, _ in self.slots
      if tensor.device.type != 'cpu' or tensor.dtype != torch.float32
    }
    self.cuda = {tensor.device for _, tensor, _ in self.slots if is_cuda(tensor)}
    self.pinned = bool(self.cuda) and self._pin()

  def _view(self, shape, count, offset):
    if count == 0:
      return torch.empty(shape)
    return torch.frombuffer(self.memory, dtype=torch.float32, count=count, offset=offset).view(shape)

  def _pin(self):
    """So that copies from and to a GPU run at full speed. Where that is refused they are slower."""
    with contextlib.suppress(RuntimeError, AttributeError, AssertionError):
      return int(torch.cuda.cudart().cudaHostRegister(self.address, len(self.memory), 1)) == 0
    return False

  def __del__(self):  # before the memory is freed
    with contextlib.suppress(Exception):  # the interpreter ends, or join() has refused the model
      if self.pinned:
        torch.cuda.cudart().cudaHostUnregister(self.address)

  @torch.no_grad()
  def fill(self):
    for name, tensor, _ in self.slots:
      self.views[name].copy_(tensor)

  @torch.no_grad()
  def take(self):
    """All that is copied, into the block. May be done again and again."""
    for copied in self.copied.values():
      copied.take()
    self.wait()

  @torch.no_grad()
  def put(self):
    """Out of it."""
    for copied in self.copied.values():
      copied.put()
    self.wait()

  def wait(self):
    """For the copies."""
    for device in self.cuda:
      torch.cuda.synchronize(device)

  def move(self):
    """The tensors live here from now on."""
    for name, tensor, _ in self.slots:
      if name not in self.copied:
        tensor.data = self.views[name]

  def strays(self, now):
    """The names whose tensor lies elsewhere by now; `now`: by name, as assign=True makes new Parameter objects."""
    return [name for name, _, offset in self.slots if name not in now or self._strayed(name, now[name], offset)]

  def _strayed(self, name, tensor, offset):
    if name in self.copied:
      return not self.copied[name].holds(tensor)
    return tensor.numel() > 0 and tensor.data_ptr() != self.address + offset


class Copied:
  """A tensor elsewhere or of another floating type, and its part of a block."""

  def __init__(self, view, tensor):
    self.view, self.tensor, self.dtype = view, tensor, tensor.dtype
    self.rest = None  # of the block, what the tensor cannot hold
    if tensor.dtype in (torch.bfloat16, torch.float16):
      self.rest = torch.zeros_like(view)

  @property
  def exact(self):
    """It holds more than the block."""
    return self.dtype == torch.float64

  def holds(self, tensor):
    """Whether this is the tensor that is copied, as it was."""
    return tensor is self.tensor and tensor.dtype == self.dtype and tensor.shape == self.view.shape

  def take(self):
    self.view.copy_(self.tensor, non_blocking=self._lands_later)
    if self.rest is not None:
      self.view += self.rest

  def put(self):
    """What did not change in the block stays as it is, to the last bit."""
    if self.exact:
      self.tensor += self.view.to(self.tensor.device) - self.tensor.float()
    else:
      self.tensor.copy_(self.view, non_blocking=self._lands_later)
    if self.rest is not None:
      self.rest = self.view - self.tensor.cpu()

  @property
  def _lands_later(self):
    return self.rest is None and is_cuda(self.tensor)


class Momentum:
  """A block under the momentum of torch.optim.SGD, whose tensors move here once they exist, or are copied."""

  KEY = 'momentum_buffer'

  def __init__(self, params, optimizer):
    self.params, self.optimizer = params, optimizer
    self.block = Block([(name, tensor) for name, tensor, _ in params.slots])
    self.seen = None  # the optimizer's state whose tensors all lie here

  @staticmethod
  def of(params, optimizer):
    """None: the optimizer has no momentum that could be shared. Adam's moments diverge when they are mixed."""
    groups = getattr(optimizer, 'param_groups', [])
    shares = isinstance(optimizer, torch.optim.SGD) and all(group['momentum'] > 0 for group in groups)
    rounded = any(copied.dtype != torch.float32 for copied in params.copied.values())
    return Momentum(params, optimizer) if shares and not rounded else None

  @property
  def complete(self):
    return self.seen is self.optimizer.state

  @torch.no_grad()
  def gather(self):
    complete = True
    for name, tensor, _ in self.params.slots:
      if not tensor.requires_grad:
        continue
      view, state = self.block.views[name], self.optimizer.state.get(tensor, {})
      held = state.get(self.KEY)
      if held is None and view.any():  # the swarm's
        self.optimizer.state[tensor][self.KEY] = view.to(tensor.device)
      elif held is None:
        complete = False  # SGD makes it in its first step, of the gradient alone
      elif name not in self.params.copied and held.data_ptr() != view.data_ptr():
        view.copy_(held)
        state[self.KEY] = view
    self.seen = self.optimizer.state if complete else None

  @torch.no_grad()
  def take(self):
    """What is copied, into the block."""
    for held, view in self._copied():
      view.copy_(held)

  @torch.no_grad()
  def put(self):
    """Out of it."""
    for held, view in self._copied():
      held.copy_(view)

  def _copied(self):
    for name, copied in self.params.copied.items():
      held = self.optimizer.state.get(copied.tensor, {}).get(self.KEY)
      if held is not None:
        yield held, self.block.views[name]
