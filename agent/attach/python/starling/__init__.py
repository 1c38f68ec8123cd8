"""Your own PyTorch loop trains with others: join(), step() after each optimizer step, finish()."""

import atexit
import ctypes
import difflib
import inspect
import io
import logging
import numbers
import os
import pickle
import re
import time
import warnings
import weakref

import torch

from . import _library as lib
from ._block import Block, Momentum
from ._error import SwarmError
from ._model import (
  averaged_buffers,
  frozen_hashes,
  is_adaptive,
  label_counts,
  refuse_optimizer,
  shared_params,
  unwrapped,
)
from ._words import for_python, settings as flattened

__all__ = ['Swarm', 'SwarmError', 'join']

_C = lib.load()
_SLICE_MS = 40  # the longest call into the library: Ctrl-C comes through between two of them
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
_open = weakref.WeakSet()


def join(model, optimizer=None, **arguments):
  """Joins a swarm, or begins one, and returns a Swarm. Arguments as Swarm has them. All ranks of DDP call it."""
  from ._ranks import swarm_class

  return swarm_class()(model, optimizer, **arguments)


def _text(function, handle):
  size = function(handle, None, 0)
  if size <= 0:
    return ''
  room = ctypes.create_string_buffer(size + 1)
  function(handle, room, len(room))
  return for_python(room.value.decode(errors='replace'))


def _count(samples):
  if not 0 <= samples < 2**63:
    raise TypeError  # ctypes would make another count of it
  return samples


def _on_cpu(state):
  if isinstance(state, torch.Tensor):
    return state.to('cpu')
  if isinstance(state, dict):
    return {key: _on_cpu(value) for key, value in state.items()}
  return [_on_cpu(value) for value in state] if isinstance(state, list) else state


def _steps_of(scheduler):
  if hasattr(scheduler, 'last_epoch'):
    return scheduler.last_epoch
  return max(_steps_of(one) for one in scheduler._schedulers)  # a ChainedScheduler


class Swarm:
  """A member of a swarm. Between two calls of step() the model is the loop's; inside it may be the agent's.

  config, bootstrap: a YAML file begins a swarm, HOST:PORT of any member joins its own. Where both are missing
  STARLING_BOOTSTRAP may name the member. A folder `state` with an earlier life needs neither. share: which
  parameters, by a pattern, names or a function of a name; None: those that require grad. buffers: 'average' running
  means and the like, or keep them 'local'. frozen: 'check' that all members hold the same parameters that do not
  require grad, or 'ignore' it, at all of them. extra: a function whose value is saved with each checkpoint, the first
  time inside join(); after a restart it is `restored_extra`. alone: a member that starts again waits for none of
  those it knew. labels: of this loop's samples, integers from 0 on. A warning then says if other members hold other
  labels and the optimizer is like Adam. timeout: seconds to hear from a member. agent: this machine's own keys, as a
  dict; all other arguments are keys of `swarm` in a config: local_steps=8, exchange={'kind': 'group'}.
  """

  WHOLE_ROUNDS = False  # because other processes count the steps to the boundary

  def __init__(
    self,
    model,
    optimizer=None,
    *,
    config=None,
    bootstrap=None,
    state=None,
    listen=None,
    advertise=None,
    name=None,
    share=None,
    buffers='average',
    frozen='check',
    extra=None,
    alone=False,
    labels=None,
    timeout=60,
    agent=None,
    **settings,
  ):
    self._has_turn = False  # of the params: the loop, not the agent
    self._handle, self._moved, self._over, self._finished, self._told = None, False, False, False, False
    self._model, self._optimizer, self._extra = unwrapped(model), getattr(optimizer, 'optimizer', optimizer), extra
    if any(other._model is self._model for other in _open):
      raise SwarmError('this model has joined a swarm already; finish() or close() that one first')
    refuse_optimizer(self._optimizer, self._model)
    kinds = ((agent, dict, 'agent= takes a dict of keys'), (config, (str, os.PathLike), 'config= takes a path'))
    for value, kind, text in (*kinds, (name, str, 'name= takes a text')):
      if value is not None and not isinstance(value, kind):
        raise TypeError(f'{text}, not {type(value).__name__}')
    if extra is not None and not callable(extra):
      raise TypeError(f'extra= takes a function, whose value is saved, not {type(extra).__name__}')
    if not (timeout is None or isinstance(timeout, numbers.Real) and timeout >= 0):
      raise TypeError(f'timeout={timeout!r}: it takes seconds, or None to wait for as long as it takes')
    params, averaged = shared_params(self._model, share), averaged_buffers(self._model, buffers)
    self._frozen = frozen_hashes(self._model, {name for name, _ in params}, frozen)
    self._labels = label_counts(labels)
    self._block = Block(params + averaged)
    self._shares_all, self._own = share is None, self._not_shared_but_trained()
    self._averaged = {name for name, _ in averaged}
    self._variances = [name for name, _ in averaged if name.endswith('var')]
    self._types = {name: tensor.dtype for name, tensor, _ in self._block.slots}
    self._momentum = Momentum.of(self._block, self._optimizer)
    self._block.fill()
    self._log = logging.getLogger('starling.' + name.replace('.', '_') if name else 'starling')
    self._line, self._level = ctypes.create_string_buffer(8192), ctypes.c_int()
    self._now, self._owner, self._state = lib.Now(ctypes.sizeof(lib.Now)), os.getpid(), b''
    self._restoring = False  # or that has failed: what was saved stays
    self._had_turn = False
    self.changed, self.restored_extra, self._schedulers = False, None, []
    self._losses = 0.0  # of steps since the boundary, on a GPU; the agent was told none of them
    if bootstrap is None and config is None:
      bootstrap = os.environ.get('STARLING_BOOTSTRAP')
    places = {'bootstrap': bootstrap, 'state': state, 'listen': listen, 'advertise': advertise, 'name': name}
    own = {**(agent or {}), **{key: value for key, value in places.items() if value is not None}}
    asked = str(own.get('bootstrap') or 'any address of the state folder').split(',')
    self._asked = ', '.join(address.partition('#')[0] for address in asked)  # without tickets
    if alone:
      own['return_wait'] = '0s'
    self._begin(config, [*flattened('agent', own), *flattened('swarm', settings)], timeout)

  def _blocks(self):
    return [self._block, self._momentum.block] if self._momentum else [self._block]

  def _begin(self, config, overrides, timeout):
    try:
      self._open(config, overrides)
    except SwarmError as error:
      unknown = re.search(r"unknown key '(\w+)' in swarm\b", str(error))
      own = [name for name, one in inspect.signature(Swarm).parameters.items() if one.kind is one.KEYWORD_ONLY]
      near = difflib.get_close_matches(unknown[1], own, 1) if unknown else []
      raise (SwarmError(f'{error}; or did you mean {near[0]}=?') if near else error) from None
    _open.add(self)
    try:
      until = None if timeout is None else time.monotonic() + timeout
      self._wait(_C.starling_wait(self._handle, _SLICE_MS), until)
    except BaseException:
      self.close()
      raise

  def _open(self, config, overrides):
    tensors = (lib.Tensor * (len(self._block.slots) + len(self._frozen)))()
    for entry, (name, tensor, offset) in zip(tensors, self._block.slots):
      shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
      entry.name, entry.shape, entry.rank = name.encode(), shape, tensor.dim()
      entry.averaged, entry.offset = name in self._averaged, offset // 4
    for entry, (name, tensor, hashed) in zip(tensors[len(self._block.slots) :], self._frozen):
      shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
      entry.name, entry.shape, entry.rank = name.encode(), shape, tensor.dim()
      entry.averaged, entry.offset = lib.FROZEN, hashed
    texts = (ctypes.c_char_p * (len(overrides) + 1))(*(text.encode() for text in overrides), None)
    momentum = self._momentum.block.address if self._momentum else None
    options = lib.Options(
      ctypes.sizeof(lib.Options),
      os.fspath(config).encode() if config is not None else None,
      texts,
      self._block.address,
      momentum,
      self._block.count,
      tensors,
      len(tensors),
      self.WHOLE_ROUNDS,
      is_adaptive(self._optimizer),
      (ctypes.c_uint64 * len(self._labels))(*self._labels),
      len(self._labels),
      bool(self._block.copied),
    )
    handle, error = ctypes.c_void_p(), ctypes.create_string_buffer(16384)
    if _C.starling_open(ctypes.byref(options), ctypes.byref(handle), error, len(error)) != lib.GO:
      raise SwarmError(for_python(error.value.decode(errors='replace')))
    self._handle = handle

  # ---- the loop

  def step(self, loss=0.0, samples=0):
    """After each optimizer step. False: the run is over, and finish() is next."""
    if self._handle is None or self._over:
      return self._late_step()
    if self._momentum is not None and not self._momentum.complete:
      self._momentum.gather()
    value = loss
    if isinstance(loss, torch.Tensor):
      if loss.numel() != 1:
        raise TypeError(f'step(loss) takes one number, not a tensor of shape {list(loss.shape)}: give its mean')
      if self._block.copied and loss.device.type != 'cpu':  # .item() would wait for the GPU in each step
        self._losses, value = loss.detach().float() + self._losses, 0.0
      else:
        value = loss.item()
    try:
      result = _C.starling_step(self._handle, _count(samples), value, 0)
    except (TypeError, ctypes.ArgumentError):
      raise TypeError(f'step(loss, samples) takes a number and a count, not {loss!r} and {samples!r}') from None
    if result == 6:  # lib.PARAMS_WANTED
      self._copy_in()
      result = _C.starling_wait(self._handle, 0)
    if result == 0:  # lib.GO
      self.changed = False
      return True
    self._has_turn = self._restoring = False
    self._wait(result)
    return not self._over

  def _late_step(self):
    if self._handle is None and not self._finished:
      raise SwarmError('the swarm was closed; join() again')
    if not self._told:
      self._told = True
      self._log.warning('step() after the end of the run is not counted: call finish(), and end the loop')
    return False

  def _wait(self, result, until=None):
    try:
      self._wait_for_turn(result, until)
    except KeyboardInterrupt:
      result = _C.starling_wait(self._handle, _SLICE_MS)
      if result == lib.STATE_WANTED:  # else the agent waits for a minute
        _C.starling_put_state(self._handle, None, lib.NO_STATE)
      if result in (lib.GO, lib.CHANGED, lib.RESTORED):  # mostly a boundary ends meanwhile
        self._take_back(lib.RESTORED if self._restoring else result)
      raise

  def _wait_for_turn(self, result, until):
    last = ''
    while True:
      if result in (lib.GO, lib.CHANGED, lib.RESTORED):
        return self._take_back(result)
      if result == lib.OVER:
        self._over = True
        self._put_state()
        self._drain_log()
        return None
      if result == lib.STATE_WANTED:
        self._put_state()
      elif result != lib.AGAIN:
        raise self._error(result)
      elif until is not None and self._unheard() and time.monotonic() > until:
        raise SwarmError(
          f'no member of the swarm has answered at {self._asked} in time (timeout=): is one running there, and are its '
          f'ports open to this machine? The last line logged: {last or "none"}'
        )
      last = self._drain_log() or last
      result = _C.starling_wait(self._handle, _SLICE_MS)

  def _unheard(self):
    now = self._look()
    return lib.PHASES[now.phase] == 'joining' and now.peers == 0

  @torch.no_grad()
  def _take_back(self, result):
    if result == lib.RESTORED:
      self._restoring = True  # until it is loaded
    if not self._moved:
      self._moved = True
      self._block.move()
      if self._momentum is not None and not self._look().carries_momentum:
        self._momentum = None
    self.changed = True
    self._has_turn = True
    if result == lib.RESTORED:
      self._take_saved()
    for name in self._variances:  # one near zero may come back below it
      self._block.views[name].clamp_(min=0)
    self._refuse_strays()
    self._block.put()
    if self._momentum is not None:
      self._momentum.gather()
      self._momentum.put()
    if result == lib.RESTORED:
      self._restore()
    self._had_turn = True
    self._follow()
    self._drain_log()

  def _copy_in(self):
    self._block.take()
    if self._momentum is not None:
      self._momentum.take()
    if isinstance(self._losses, torch.Tensor):
      _C.starling_add_loss(self._handle, self._losses.item())
      self._losses = 0.0

  def _named(self):
    wanted = {name for name, _, _ in self._block.slots}
    for named in (self._model.named_parameters(), self._model.named_buffers()):
      yield from ((name, tensor) for name, tensor in named if name in wanted)

  def _refuse_strays(self):
    now = dict(self._named())
    for name in self._block.strays(now):
      view, tensor = self._block.views[name], now.get(name)
      what = (
        'is gone' if tensor is None else f'is now {tensor.dtype} {list(tensor.shape)} on {tensor.device}, elsewhere'
      )
      raise SwarmError(
        f"'{name}' {what}; it was {self._types[name]} {list(view.shape)} in the memory that the swarm shares. Convert "
        'or move the model before join(), and set values in place: by copy_(), or load_state_dict() without assign=True'
      )
    for name in self._not_shared_but_trained() if self._shares_all else ():
      raise SwarmError(
        f"'{name}' requires grad now and did not at join(): each member would train one of its own. Name it in share= "
        'at join(), at all members; it may be frozen there'
      )

  def _not_shared_but_trained(self):
    named = self._model.named_parameters()
    return {name: None for name, tensor in named if tensor.requires_grad and name not in self._block.views}

  # ---- checkpoints

  def _put_state(self):
    saved, size = io.BytesIO(), lib.NO_STATE
    try:
      if self._restoring:
        return
      self._state = b''
      optimizer = self._optimizer.state_dict() if self._optimizer is not None else None
      local = {name: tensor.detach() for name, tensor in self._local_tensors().items() if self._is_kept(name, tensor)}
      extra = self._extra() if self._extra else None
      self._refuse_unloadable(optimizer, extra)
      exact = {name: copied.tensor for name, copied in self._block.copied.items() if copied.exact}
      state = _on_cpu({'optimizer': optimizer, 'kind': self._kind(), 'buffers': local, 'exact': exact})
      torch.save({**state, 'extra': extra, 'followed': bool(self._schedulers)}, saved)
      size = saved.tell()
    finally:  # the agent waits for it
      with saved.getbuffer() as view:
        data = (ctypes.c_char * size).from_buffer(view) if size != lib.NO_STATE else None
        if _C.starling_put_state(self._handle, data, size) == lib.FAILED:  # no memory for a copy
          _C.starling_put_state(self._handle, None, lib.NO_STATE)
        del data

  def _local_tensors(self):
    named = (*self._model.named_parameters(), *self._model.named_buffers())
    return {name: tensor for name, tensor in named if name not in self._block.views}

  def _is_kept(self, name, tensor):
    """But for frozen parameters, which the loop makes again."""
    return not isinstance(tensor, torch.nn.Parameter) or tensor.requires_grad or name in self._own

  @staticmethod
  def _refuse_unloadable(optimizer, extra):
    """What _load_state() would refuse in the next life."""
    for group in optimizer['param_groups'] if optimizer else ():
      group.update({key: value.item() for key, value in group.items() if type(value).__module__ == 'numpy'})
    saved = io.BytesIO()
    torch.save((optimizer['param_groups'] if optimizer else None, extra), saved)
    try:
      torch.load(io.BytesIO(saved.getvalue()), weights_only=True)
    except pickle.UnpicklingError as error:
      named = re.search(r'(?:GLOBAL|Unsupported class) (\S+)', str(error))
      what = named[1] if named else 'an object'
      raise SwarmError(
        f'extra= or a setting of the optimizer has a value ({what}) that cannot be restored after a restart: take '
        'numbers, texts, lists, dicts or tensors (of numpy: value.item(), torch.from_numpy(array))'
      ) from None

  def _take_saved(self):
    size = _C.starling_take_state(self._handle, None, 0)
    room = ctypes.create_string_buffer(max(size, 0))
    _C.starling_take_state(self._handle, room, len(room))
    self._state = room.raw

  @torch.no_grad()
  def _restore(self):
    if self._state:
      self._load_state()
    self._restoring = False

  @torch.no_grad()
  def _load_state(self):
    saved = torch.load(io.BytesIO(self._state), weights_only=True, map_location='cpu')
    if saved.get('kind', self._kind()) != self._kind():
      kinds = f'{saved["kind"]} in the checkpoint, {self._kind()} here'
      self._log.warning('the optimizer is another one (%s), and begins anew; take the one before to restore it', kinds)
    elif self._optimizer is not None and saved['optimizer'] is not None:
      anew = self._had_turn or saved.get('followed', False)
      self._optimizer.load_state_dict(self._with_settings_of_now(saved['optimizer']) if anew else saved['optimizer'])
      if self._momentum is not None:
        self._momentum.gather()
    local = self._local_tensors()
    for name, tensor in saved['buffers'].items():
      if name in local and local[name].shape == tensor.shape:
        local[name].copy_(tensor)
      elif name in local:
        shapes = f'{list(tensor.shape)} in the checkpoint, {list(local[name].shape)} here'
        self._log.warning("'%s' is %s, and begins anew; make the model as before to restore it", name, shapes)
    for name, tensor in saved.get('exact', {}).items():
      copied = self._block.copied[name]
      copied.tensor.copy_(tensor)
      copied.put()
    self.restored_extra = saved['extra']

  def _kind(self):
    return None if self._optimizer is None else type(self._optimizer).__name__

  def _with_settings_of_now(self, saved):
    """With the learning rate where the schedulers are, which do not go back. Groups may have been added since."""
    now = self._optimizer.state_dict()['param_groups']
    sizes, before = ([len(group['params']) for group in groups] for groups in (now, saved['param_groups']))
    return {**saved, 'param_groups': now} if sizes[: len(before)] == before else saved

  # ---- what is known

  def _look(self):
    if self._handle is not None and os.getpid() == self._owner:
      _C.starling_look(self._handle, ctypes.byref(self._now))
    return self._now

  @property
  def steps(self):
    """Behind the model, with those of its donor and of earlier lives. Counted at boundaries, each `local_steps`."""
    return self._look().steps

  @property
  def steps_of_swarm(self):
    """The swarm's clock, which stop_after means: the median of its members."""
    return self._look().steps_of_swarm

  @property
  def peers(self):
    return self._look().peers

  @property
  def lr_scale(self):
    """A factor for your learning rate: below 1 in a newcomer's first 100 steps, and after a bad loss."""
    return self._look().rate_scale

  @property
  def phase(self):
    return lib.PHASES[self._look().phase]

  def metrics(self):
    """Numbers by name, for any tracker of experiments."""
    self._refuse_forked()
    now = self._look()
    names = ('steps', 'steps_of_swarm', 'round', 'peers', 'exchanges', 'failed')
    numbers = {f'swarm/{name}': getattr(now, name) for name in names}
    if now.distance >= 0:
      numbers['swarm/distance'] = now.distance
    return numbers

  def save(self, path):
    """The model by its names, as a file of the suffix .safetensors or .pt."""
    self._refuse_forked()
    path = os.fspath(path)
    kind = os.path.splitext(path)[1]
    if kind not in ('.pt', '.safetensors'):
      raise ValueError(f"save({path!r}): a name that ends with .safetensors or .pt")
    if kind == '.pt':
      torch.save(
        {name: tensor.to('cpu', copy=True) for name, tensor in self._model.state_dict().items()}, path + '.part'
      )
    else:
      from safetensors.torch import save_model

      save_model(self._model, path + '.part')
    os.replace(path + '.part', path)

  def follow(self, scheduler):
    """From now on the agent steps it, at boundaries: it is where the swarm's clock is, for a late member too."""
    self._refuse_forked()
    scheduler = getattr(scheduler, 'scheduler', scheduler)  # out of Accelerate's
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
      raise SwarmError('ReduceLROnPlateau follows a metric, not the clock: call its step(metric) in the loop')
    if not hasattr(scheduler, 'last_epoch') and not hasattr(scheduler, '_schedulers'):
      raise TypeError(f'follow() takes a scheduler of torch.optim.lr_scheduler, not {type(scheduler).__name__}')
    if _steps_of(scheduler) > 0:  # of an earlier life; the optimizer's rate may be that of the script
      for group, rate in zip(scheduler.optimizer.param_groups, scheduler.get_last_lr()):
        group['lr'] = rate
    self._schedulers.append(scheduler)
    self._follow()

  def _follow(self):
    now = self._look()
    clock = min(now.steps_of_swarm, now.stop_after or now.steps_of_swarm)  # the last round may go beyond the end
    for scheduler in self._schedulers:
      with warnings.catch_warnings():  # a member that comes late has taken no step yet
        warnings.filterwarnings('ignore', 'Detected call of `lr_scheduler.step', UserWarning)
        for _ in range(_steps_of(scheduler), clock):
          scheduler.step()

  def log(self, accuracy=0.0, loss=0.0, samples=1):
    """An evaluation of the loop's own, for `starling status` and the metrics."""
    self._refuse_closed()
    if isinstance(accuracy, numbers.Real) and not 0 <= accuracy <= 1:
      raise ValueError(f'log(accuracy={accuracy!r}): it is a part of 1, such as 0.93')
    try:
      _C.starling_report(self._handle, accuracy, loss, _count(samples))
    except (TypeError, ctypes.ArgumentError):
      given = f'{accuracy!r}, {loss!r} and {samples!r}'
      raise TypeError(f'log(accuracy, loss, samples) takes two numbers and a count, not {given}') from None

  def __repr__(self):
    now = self._look()
    of = f' of {now.stop_after}' if now.stop_after else ''
    apart = f', distance {now.distance:.2g}' if now.distance >= 0 else ''
    return f'<Swarm {lib.PHASES[now.phase]}: step {now.steps}{of}, {now.peers} peers{apart}>'

  def _drain_log(self):
    last, warned = '', ''
    while _C.starling_log(self._handle, ctypes.byref(self._level), self._line, len(self._line)) > 0:
      last = for_python(self._line.value.decode(errors='replace'))
      self._log.log(_LEVELS[self._level.value], '%s', last)
      warned = last if _LEVELS[self._level.value] >= logging.WARNING else warned
    return warned or last

  def _error(self, result):
    self._refuse_forked()
    if result == lib.CLOSED:
      return SwarmError('the swarm was closed; join() again')
    self._drain_log()
    return SwarmError(_text(_C.starling_message, self._handle))

  def _refuse_forked(self):
    if os.getpid() != self._owner:
      raise SwarmError("this process was forked from the one that joined: the swarm is its parent's; call it there")

  def _refuse_closed(self):
    self._refuse_forked()
    if self._handle is None:
      raise SwarmError('the swarm was closed; join() again')

  # ---- the end

  def finish(self):
    """Waits until the members agree, after step() said False; before that it leaves. Whether the models agreed."""
    if self._handle is None:
      return self._agreed()
    if not self._over:
      self._log.info('finish() before the end of the run (stop_after): this member leaves the others to it')
      self.leave()
    result = self._wait_for_end()
    if result != lib.OVER:
      error = self._error(result)
      self.close()
      raise error
    self._take_back(lib.OVER)
    self._finished = True
    self.close()
    return self._agreed()

  def _agreed(self):
    return self._now.agreed == 1 or (self._now.agreed == -1 and self._over and self._now.peers == 0)

  def leave(self):
    """No more steps: the others learn that this member leaves. Returns at once."""
    self._refuse_closed()
    if not self._over:
      if self._has_turn:
        self._copy_in()
      self._put_state()
    self._over, self._has_turn = True, False
    _C.starling_leave(self._handle)

  def close(self):
    """Leaves if that is not done, and gives threads, ports and the folder back. The model keeps its values."""
    if self._handle is None or os.getpid() != self._owner:
      return
    try:
      if not self._over:
        self.leave()
      _C.starling_leave(self._handle)
      self._wait_for_end()
    finally:
      _C.starling_close(self._handle)
      self._handle = None
      _open.discard(self)

  def _wait_for_end(self):
    result = lib.AGAIN
    while result == lib.AGAIN:
      result = _C.starling_finish(self._handle, _SLICE_MS)
      self._drain_log()
    self._look()  # the last steps are counted
    return result

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.close()

  def __del__(self):  # the agent's threads use its memory
    if getattr(self, '_handle', None) is not None:
      self.close()


@atexit.register
def _close_all():
  for swarm in list(_open):
    try:
      swarm.close()
    except Exception:  # the others end too
      swarm._log.exception('close() at the end of the process failed')
