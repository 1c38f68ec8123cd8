"""Which tensors of a model are shared, and whether they can be. Refuses before anything is changed."""

import difflib
import hashlib
import re

import torch

from ._error import SwarmError


def unwrapped(model):
  """The user's own module, out of torch.compile's and DDP's."""
  wrapper = torch.nn.parallel.DistributedDataParallel
  while hasattr(model, '_orig_mod') or isinstance(model, wrapper):
    model = model.module if isinstance(model, wrapper) else model._orig_mod
  kind = type(model).__name__
  if not isinstance(model, torch.nn.Module):
    raise TypeError(f'join() takes a torch.nn.Module, not {kind}')
  split = hasattr(model, 'set_requires_gradient_sync') or any(
    type(p.data).__name__ == 'DTensor' for p in model.parameters()
  )
  if kind == 'FullyShardedDataParallel' or split:
    raise SwarmError(
      'FSDP and HSDP split a model over processes, and only a whole one can join: wrap it in DistributedDataParallel, '
      "or share small adapters only (share='lora_'), outside of what is split"
    )
  return model


TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SAMPLED = 4096  # elements of a frozen tensor


def _chooses(share, names):
  """names: of the model's parameters."""
  if share is None:
    return lambda name, tensor: tensor.requires_grad
  if isinstance(share, str):
    try:
      pattern = re.compile(share)
    except re.error as error:
      raise ValueError(
        f'share={share!r} is no regular expression ({error}); \\ before a sign takes it as it is'
      ) from None
    return lambda name, tensor: pattern.search(name) is not None
  if callable(share):
    return lambda name, tensor: share(name)
  try:
    chosen = dict.fromkeys(share)
  except TypeError:
    raise TypeError(f'share= takes a pattern, names, or a function of a name, not {share!r}') from None
  for name in chosen:
    if name not in names:
      near = difflib.get_close_matches(str(name), names, 1)
      also = f"; did you mean '{near[0]}'?" if near else '; list(dict(model.named_parameters())) has their names'
      raise ValueError(f'share= names {name!r}, which the model does not have{also}')
  return lambda name, tensor: name in chosen


def _refuse(name, tensor, remedy='look at what loads or draws it'):
  if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin) or tensor.device.type == 'meta':
    raise SwarmError(f"'{name}' has no values yet: run one forward pass (or load the weights) before join()")
  if tensor.layout != torch.strided or tensor.dtype not in TYPES:
    sparse = '' if tensor.layout == torch.strided else f' {tensor.layout}'
    raise SwarmError(
      f"'{name}' is {tensor.dtype}{sparse}: only dense tensors of float32, bfloat16, float16 and float64 can be "
      'shared; convert it before join(), or leave it out with share='
    )
  if not bool(torch.isfinite(tensor).all()):
    raise SwarmError(f"'{name}' has values that are not finite: a swarm would never get rid of them; {remedy}")


def shared_params(model, share):
  params = dict(model.named_parameters())
  chooses = _chooses(share, params)
  chosen = [(name, tensor) for name, tensor in params.items() if chooses(name, tensor)]
  if not chosen:
    why = 'nothing requires grad; pass share=' if share is None else f'share={share!r} names none of its parameters'
    raise SwarmError(f'the model has no parameters to share: {why}')
  at = {}
  for name, tensor in chosen:
    _refuse(name, tensor)
    other = at.setdefault(tensor.data_ptr() or name, name)  # 0: it has no elements, or none of its own
    if other != name:
      raise SwarmError(f"'{name}' lies in the memory of '{other}': tie them as one Parameter, not by .data")
  return chosen


def averaged_buffers(model, buffers):
  """Running means and the like: of floating point, and saved with the model."""
  if buffers not in ('average', 'local'):
    raise ValueError(f"buffers={buffers!r}: 'average' or 'local'")
  saved = model.state_dict(keep_vars=True) if buffers == 'average' else {}
  chosen = [(n, b) for n, b in model.named_buffers() if n in saved and b.dtype in TYPES and b.numel() > 0]
  for name, tensor in chosen:
    _refuse(name, tensor, "register it with persistent=False, or join with buffers='local'")
  return chosen


def _hash(tensor):
  flat = tensor.detach().reshape(-1)
  some = torch.cat([flat[:: max(1, flat.numel() // SAMPLED)], flat[-1:]]).cpu().contiguous()
  values = some.view(torch.uint8).tolist() if some.numel() > 0 else []
  return int.from_bytes(hashlib.blake2b(f'{some.dtype}'.encode() + bytes(values), digest_size=8).digest(), 'little')


def frozen_hashes(model, shared, frozen):
  """(name, tensor, hash of a sample) of the parameters that neither learn nor are shared."""
  if frozen not in ('check', 'ignore'):
    raise ValueError(f"frozen={frozen!r}: 'check' or 'ignore'")
  if frozen == 'ignore':
    return []
  held = [(n, p) for n, p in model.named_parameters() if not p.requires_grad and n not in shared]
  for name, tensor in held:
    if tensor.device.type == 'meta' or tensor.layout != torch.strided:
      raise SwarmError(f"'{name}' is frozen and cannot be compared: load its weights, or join with frozen='ignore'")
  return [(name, tensor, _hash(tensor)) for name, tensor in held]


def refuse_optimizer(optimizer, model):
  if optimizer is not None and not (hasattr(optimizer, 'param_groups') and hasattr(optimizer, 'state_dict')):
    raise TypeError(
      f'join(model, optimizer) takes one optimizer of torch, not {type(optimizer).__name__}. Where a loop has several, '
      'give one of them, and save the states of the others with extra='
    )
  held = {id(tensor) for tensor in model.parameters()}
  for group in getattr(optimizer, 'param_groups', []):
    for tensor in group['params']:
      if id(tensor) not in held:
        raise SwarmError(
          f'the optimizer holds a tensor {list(tensor.shape)} that is none of the model: build it after the model is '
          'moved, converted or wrapped'
        )


LABELS_MAX = 2**20
# What Adam, RMSprop, Adadelta, Adagrad, Adafactor (of torch, of transformers) and Rprop have.
ADAPTIVE = {'betas', 'alpha', 'rho', 'lr_decay', 'beta2_decay', 'decay_rate', 'etas'}


def label_counts(labels):
  """Samples by label."""
  if labels is None:
    return []
  try:
    values = torch.as_tensor(labels)
  except (TypeError, ValueError, RuntimeError):  # texts, say
    values = torch.empty(0)
  if values.is_floating_point() or values.is_complex() or values.numel() == 0 or values.dim() == 0:
    raise ValueError('labels= takes the integer labels of the samples, such as dataset.targets')
  if values.dim() == 2 and values.shape[1] > 1 and bool((values.sum(1) == 1).all()):
    raise ValueError('labels= has a row of zeros and one 1 for each sample: give labels.argmax(1)')
  values = values.flatten().long()
  if values.min() < 0 or values.max() >= LABELS_MAX:
    span = f'from {values.min()} to {values.max()}'
    raise ValueError(f'labels= has labels {span}; they must be from 0 to {LABELS_MAX - 1}')
  return torch.bincount(values).tolist()


def is_adaptive(optimizer):
  """Whether it scales the steps of each element by what it has seen."""
  groups = getattr(optimizer, 'param_groups', [])
  return any(ADAPTIVE & group.keys() and 'lambd' not in group for group in groups)  # ASGD has both
