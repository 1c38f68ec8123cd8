"""A GPU that is played on the CPU, for loops of PyTorch. Its tensors hold their values in a tensor that no operator but
a copy sees together with one of the CPU. Copies that need not be waited for land when the GPU is waited for."""

import contextlib
import unittest.mock

import torch
from torch.utils._pytree import tree_flatten, tree_map

import starling._block

try:
  from torch.utils.backend_registration import _setup_privateuseone_for_python_backend as set_up
except ImportError:
  set_up = None

TYPE = 'played'
COPIES = {'copy_', '_to_copy'}  # alone may see both sides


class PlayedGpu:
  """What torch.cuda is for the package, and what it was asked for."""

  def __init__(self):
    self.under_way, self.elements, self.read, self.registered, self.freed = [], {'in': 0, 'out': 0}, 0, {}, []

  def synchronize(self, device):
    under_way, self.under_way = self.under_way, []
    for land in under_way:
      land()

  def cudart(self):
    return self

  def cudaHostRegister(self, address, size, flags):
    self.registered[address] = size
    return 0

  def cudaHostUnregister(self, address):
    self.freed.append((address, self.registered.pop(address)))
    return 0


gpu = PlayedGpu()


class Played(torch.Tensor):
  @staticmethod
  def __new__(cls, held):
    made = torch.Tensor._make_wrapper_subclass(
      cls, held.size(), strides=held.stride(), dtype=held.dtype, device=f'{TYPE}:0', requires_grad=held.requires_grad
    )
    made.held = held.detach()
    return made

  def __repr__(self, **_):
    return f'Played({self.held})'

  @classmethod
  def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
    kwargs, name = dict(kwargs or {}), function.overloadpacket.__name__
    tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
    if name not in COPIES and any(one.dim() > 0 and not isinstance(one, Played) for one in tensors):
      raise RuntimeError(f'Expected all tensors to be on the same device, but {name} got two')
    gpu.read += name == '_local_scalar_dense'
    to_host = name == '_to_copy' and torch.device(kwargs.get('device') or f'{TYPE}:0').type == 'cpu'
    if name == '_to_copy':
      kwargs.pop('device', None)
    held_args, held_kwargs = tree_map(lambda one: one.held if isinstance(one, Played) else one, (args, kwargs))
    if name == 'copy_':
      return cls.copy(args, held_args, kwargs.get('non_blocking') or (len(args) > 2 and args[2]))
    result = function(*held_args, **held_kwargs)
    if to_host:
      gpu.elements['out'] += args[0].numel()
      return result
    if name.endswith('_') and isinstance(args[0], torch.Tensor):
      return args[0]
    return tree_map(lambda one: Played(one) if isinstance(one, torch.Tensor) else one, result)

  @staticmethod
  def copy(args, held_args, later):
    (to, source), sides = held_args[:2], [isinstance(one, Played) for one in args[:2]]
    if sides[0] == sides[1]:
      later = False
    else:
      gpu.elements['in' if sides[0] else 'out'] += source.numel()
    if later:
      gpu.under_way.append(lambda: torch.Tensor.copy_(to, source))
    else:
      to.copy_(source)
    return args[0]


def moved(model):
  """The same model with its params and buffers there."""
  for module in model.modules():
    for name, param in module._parameters.items():
      if param is not None:
        module._parameters[name] = torch.nn.Parameter(Played(param.detach()), requires_grad=param.requires_grad)
    for name, buffer in module._buffers.items():
      module._buffers[name] = Played(buffer)
  return model


@contextlib.contextmanager
def played():
  """For the package the tensors are of CUDA."""
  gpu.__init__()
  is_played = unittest.mock.patch.object(starling._block, 'is_cuda', lambda tensor: isinstance(tensor, Played))
  runtime = unittest.mock.patch.multiple(torch.cuda, synchronize=gpu.synchronize, cudart=gpu.cudart)
  with is_played, runtime:
    yield gpu


def begin():
  """Once for a process."""
  set_up(TYPE)
  made = torch.library.Library('aten', 'IMPL')
  made.impl('empty.memory_format', lambda size, **kind: empty(size, kind), 'PrivateUse1')
  made.impl('empty_strided', lambda size, stride, **kind: empty(size, kind), 'PrivateUse1')
  return made


def empty(size, kind):
  return Played(torch.empty(size, dtype=kind.get('dtype')))
