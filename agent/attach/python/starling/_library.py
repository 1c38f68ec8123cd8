"""starling.h through ctypes: no compiled extension, so one wheel serves every Python and every torch."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p

GO, CHANGED, RESTORED, AGAIN, STATE_WANTED, OVER, PARAMS_WANTED = range(7)
FAILED, FORKED, BUSY, CLOSED, BAD_ARGUMENT = -1, -2, -3, -4, -5
PHASES = ('joining', 'gathering', 'training', 'settling', 'ended')
ABI = 2
FROZEN = 2  # Tensor.averaged
NO_STATE = 2**64 - 1


class Tensor(ctypes.Structure):
  _fields_ = [
    ('name', c_char_p),
    ('shape', POINTER(c_int64)),
    ('rank', c_uint32),
    ('averaged', c_uint32),
    ('offset', c_uint64),
  ]


class Options(ctypes.Structure):
  _fields_ = [
    ('size', c_uint32),
    ('config', c_char_p),
    ('set', POINTER(c_char_p)),
    ('params', c_void_p),
    ('momentum', c_void_p),
    ('count', c_uint64),
    ('tensors', POINTER(Tensor)),
    ('tensor_count', c_uint64),
    ('whole_rounds', c_uint32),
    ('adaptive', c_uint32),
    ('labels', POINTER(c_uint64)),
    ('label_count', c_uint64),
    ('copied', c_uint32),
  ]


class Now(ctypes.Structure):
  _fields_ = [
    ('size', c_uint32),
    ('phase', c_int32),
    *(
      (name, c_uint64)
      for name in ('own_steps', 'steps', 'steps_of_swarm', 'stop_after', 'round', 'peers', 'exchanges', 'failed')
    ),
    ('steps_left', c_uint64),
    ('rate_scale', c_double),
    ('distance', c_double),
    ('carries_momentum', c_int32),
    ('agreed', c_int32),
  ]


SIGNATURES = {
  'open': (c_int, [POINTER(Options), POINTER(c_void_p), c_char_p, c_uint64]),
  'wait': (c_int, [c_void_p, c_int]),
  'step': (c_int, [c_void_p, c_uint64, c_double, c_int]),
  'add_loss': (c_int, [c_void_p, c_double]),
  'put_state': (c_int, [c_void_p, c_void_p, c_uint64]),
  'take_state': (c_int64, [c_void_p, c_void_p, c_uint64]),
  'report': (c_int, [c_void_p, c_double, c_double, c_uint64]),
  'look': (c_int, [c_void_p, POINTER(Now)]),
  'log': (c_int64, [c_void_p, POINTER(c_int), c_char_p, c_uint64]),
  'place': (c_int64, [c_void_p, c_char_p, c_uint64]),
  'message': (c_int64, [c_void_p, c_char_p, c_uint64]),
  'leave': (c_int, [c_void_p]),
  'finish': (c_int, [c_void_p, c_int]),
  'close': (c_int, [c_void_p]),
}


def load():
  """The library beside this file, or the one that STARLING_LIBRARY names."""
  path = os.environ.get('STARLING_LIBRARY') or os.path.join(os.path.dirname(__file__), 'libstarling.so')
  try:
    library = ctypes.CDLL(path)
  except OSError as error:
    raise ImportError(f'{error}; install the wheel starling-swarm, or name the library in STARLING_LIBRARY') from None
  if library.starling_abi() != ABI:
    raise ImportError(f'{path} is of another version than this package; install both from one wheel')
  for name, (result, arguments) in SIGNATURES.items():
    function = getattr(library, 'starling_' + name)
    function.restype, function.argtypes = result, arguments
  return library
