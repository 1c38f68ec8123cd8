"""Real processes for the end-to-end tests: started with a log and a folder each, watched through what they write, and
ended with their test. Every wait has a deadline; a failed one shows the ends of the logs.

A test file ends with `swarm.main()`, which runs its cases and reports them as TAP. The program under test is named by
the environment: STARLING (the binary), STARLING_ROOT (the source tree), STARLING_DIGITS (real digits, may be missing).
"""

import contextlib
import ctypes
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest

PROGRAM = os.environ.get('STARLING', 'build/starling')
ROOT = pathlib.Path(os.environ.get('STARLING_ROOT', pathlib.Path(__file__).resolve().parents[2]))
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
PACE = {'STARLING_TEST_COMPUTE_MS': '10'}  # of a step; a test may name its own
PATIENCE = 60  # seconds; what takes longer than this on a busy machine is broken

# A swarm that needs no data and little processor: a known quadratic, a step every few milliseconds.
QUADRATIC = """
swarm:
  name: e2e
  model: {kind: quadratic, dimension: %(dimension)d}
  optimizer: {learning_rate: %(learning_rate)s, momentum: 0}
  local_steps: 2
  exchange: {kind: pairwise, codec: %(codec)s, block: 16384, deadline_min: 20ms, deadline_max: 500ms}
  membership: {probe_interval: 250ms, probe_timeout: 150ms, suspicion: 3}
agent:
  checkpoint: {every: %(every)s, keep: 3}
"""

# Clocks of one process, each ahead of the machine's by so many nanoseconds of a file: the wall clock, the monotonic one
# and that since boot. Deadlines by the monotonic one go to the kernel in its own time.
CLOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
enum { WALL, MONOTONIC, BOOT, COUNT };
static const volatile long long* ahead(void) {
  static const volatile long long* file;
  if (!file) file = mmap(0, COUNT * sizeof *file, PROT_READ, MAP_SHARED, open(getenv("CLOCKS"), O_RDONLY), 0);
  return file;
}
static struct timespec moved(struct timespec at, long long by) {
  const long long all = at.tv_sec * 1000000000ll + at.tv_nsec + by;
  return (struct timespec){all / 1000000000, all % 1000000000};
}
int clock_gettime(clockid_t which, struct timespec* now) {
  int (*real)(clockid_t, struct timespec*) = dlsym(RTLD_NEXT, "clock_gettime");
  const int failed = real(which, now);
  const int clock = which == CLOCK_REALTIME ? WALL : which == CLOCK_MONOTONIC ? MONOTONIC : BOOT;
  if (!failed && (clock != BOOT || which == CLOCK_BOOTTIME)) *now = moved(*now, ahead()[clock]);
  return failed;
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t which,
                           const struct timespec* until) {
  int (*real)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*) =
      dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  const struct timespec kernels = moved(*until, -ahead()[which == CLOCK_MONOTONIC ? MONOTONIC : WALL]);
  return real(condition, mutex, which, &kernels);
}
"""


class Clocks:
  """Those of processes that are started with this environment."""

  def __init__(self, library, path):
    self.path = pathlib.Path(path)
    self.turn()
    self.environment = {'LD_PRELOAD': str(library), 'CLOCKS': str(self.path)}

  def turn(self, wall=0, monotonic=0, boot=0):
    """Seconds ahead of the machine's, from now on."""
    numbers = struct.pack('3q', *(round(each * 1e9) for each in (wall, monotonic, boot)))
    with open(self.path, 'r+b' if self.path.exists() else 'wb') as file:
      file.write(numbers)


def pause(seconds):
  """Lets time pass while the processes do what is being looked at."""
  threading.Event().wait(seconds)


def free_port_pair():
  return free_port_pairs(1)[0]


def free_port_pairs(count):
  """Ports of 127.0.0.1, each free together with the next one, outside the range the kernel draws from."""
  ports = []
  first = 17000 + (os.getpid() * 14) % 12000
  for offset in range(0, 12000, 2):
    port = 17000 + (first - 17000 + offset) % 12000
    try:
      for each in (port, port + 1):
        with socket.socket() as probe:
          probe.bind(('127.0.0.1', each))
    except OSError:
      continue
    ports.append(port)
    if len(ports) == count:
      return ports
  raise RuntimeError('no two adjacent free ports on 127.0.0.1')


def weights(path):
  """All numbers of a .safetensors file, tensors in the order of their names."""
  content = pathlib.Path(path).read_bytes()
  (size,) = struct.unpack_from('<Q', content)
  header = json.loads(content[8 : 8 + size])
  numbers = []
  for name in sorted(name for name in header if name != '__metadata__'):
    first, last = header[name]['data_offsets']
    numbers += struct.unpack_from(f'<{(last - first) // 4}f', content, 8 + size + first)
  return numbers


def outer_momentum(state):
  """Of members that share updates: the bytes in the newest checkpoint, whose codec states end with them."""
  newest = max((pathlib.Path(state) / 'checkpoints').iterdir(), key=lambda path: path.stat().st_mtime_ns)
  content = newest.read_bytes()
  params, momentum, of_trainer, of_codec = struct.unpack_from('<4Q', content, 56)
  end = 4096 + 4 * (params + momentum) + of_trainer + of_codec
  return content[end - 4 * params : end]


def die_with_parent():
  LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
  """One starling process with its folder.

  limits: {resource: value}, as of setrlimit. streams: descriptors for stdout and stderr; else both are the log. closed:
  which of 0, 1 and 2 are closed. wrapper: a command that runs the program. user: a number, for tests that run as root.
  """

  def __init__(
    self,
    folder,
    arguments,
    limits=None,
    program=PROGRAM,
    working=None,
    environment=None,
    streams=None,
    closed=(),
    wrapper=(),
    session=True,
    user=None,
  ):
    self.folder = pathlib.Path(folder)
    self.folder.mkdir(parents=True, exist_ok=True)
    self.log_path = self.folder / 'log'
    self.metrics_path = self.folder / 'metrics.jsonl'
    self.state = self.folder / 'state'
    self.arguments = [str(argument) for argument in arguments]

    def prepare():
      for signal_of_resource in (signal.SIGXFSZ, signal.SIGPIPE):  # Python ignores both
        signal.signal(signal_of_resource, signal.SIG_DFL)
      for limited, value in (limits or {}).items():
        resource.setrlimit(limited, value if isinstance(value, tuple) else (value, value))
      if user:
        os.setgid(user)
        os.setuid(user)
      for fd in closed:
        os.close(fd)
      die_with_parent()  # last: another user would undo it

    outputs = streams or {}
    with open(self.log_path, 'ab') as log:
      self.child = subprocess.Popen(
        [*wrapper, program] + self.arguments,
        stdin=subprocess.DEVNULL,
        stdout=outputs.get('stdout', log),
        stderr=outputs.get('stderr', log),
        start_new_session=session,
        preexec_fn=prepare,
        cwd=working,
        env={**PACE, **os.environ, **(environment or {})},
      )

  @property
  def name(self):
    return self.folder.name

  def log(self):
    return self.log_path.read_text(errors='replace')

  def running(self):
    return self.child.poll() is None

  def events(self, kind=None):
    """The whole lines of metrics.jsonl so far, oldest first."""
    if not self.metrics_path.exists():
      return []
    events = []
    for line in self.metrics_path.read_bytes().split(b'\n')[:-1]:
      event = json.loads(line)
      if kind in (None, event.get('event')):
        events.append(event)
    return events

  def last(self, kind, **fields):
    """The newest event of a kind (with these fields), or None."""
    for event in reversed(self.events(kind)):
      if all(event.get(name) == value for name, value in fields.items()):
        return event
    return None

  def steps(self):
    return max((event['steps'] for event in self.events() if 'steps' in event), default=0)

  def done(self):
    """Exchanges that were completed."""
    return sum(1 for event in self.events('exchange') if event['outcome'] == 'done')

  def address(self):
    return self.last('start')['endpoint']

  def peer(self):
    return self.last('start')['peer']

  def send(self, number):
    os.killpg(self.child.pid, number)

  def kill(self):
    if self.running():
      self.send(signal.SIGKILL)
    self.child.wait()


class Case(unittest.TestCase):
  """A test with a folder of its own and processes that end with it."""

  def setUp(self):
    self.folder = pathlib.Path(tempfile.mkdtemp(prefix='starling-e2e-'))
    self.processes = []

  def tearDown(self):
    for process in self.processes:
      process.kill()
    shutil.rmtree(self.folder, ignore_errors=True)

  def before_libraries(self, source):
    """The environment of programs whose calls of some functions go to this C source; skips the test where none can be
    compiled."""
    text, library = self.folder / 'shim.c', self.folder / f'shim{len(list(self.folder.glob("shim*.so")))}.so'
    text.write_text(source)
    if subprocess.run(['cc', '-shared', '-fPIC', '-o', library, text, '-ldl'], capture_output=True).returncode != 0:
      self.skipTest('no compiler here')
    return {'LD_PRELOAD': str(library)}

  def clocks(self, name):
    """Clocks of its own for a process of this name."""
    return Clocks(self.before_libraries(CLOCKS)['LD_PRELOAD'], self.folder / f'clocks-{name}')

  def clock_ahead(self, seconds):
    """The environment of programs with a wall clock that is wrong by this."""
    clocks = self.clocks(seconds)
    clocks.turn(wall=seconds)
    return clocks.environment

  def small_disk(self, size='3m'):
    """A folder on a disk of its own; skips the test where none may be mounted."""
    small = self.folder / 'small'
    small.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', small], capture_output=True).returncode:
      self.skipTest('may not mount a small disk here')
    self.addCleanup(subprocess.run, ['umount', '-l', small], capture_output=True)
    return small

  def fill(self, folder):
    """Writes a file `filler` until the folder's disk is full."""
    with open(folder / 'filler', 'wb', buffering=0) as filler, contextlib.suppress(OSError):
      while filler.write(bytes(4096)) == 4096:
        pass

  def quadratic(self, name='swarm.yaml', dimension=1000, codec='modulo8', learning_rate=0.05, every='1s'):
    path = self.folder / name
    path.write_text(
      QUADRATIC % {'dimension': dimension, 'codec': codec, 'learning_rate': learning_rate, 'every': every}
    )
    return path

  def start(self, name, *arguments, **options):
    """Any subcommand, with a folder for its log."""
    process = Process(self.folder / name, arguments, **options)
    self.processes.append(process)
    return process

  def agent(self, name, *arguments, state=None, **options):
    folder = self.folder / name
    fixed = [
      'agent',
      '--name',
      name,
      '--state',
      state or folder / 'state',
      '--metrics',
      folder / 'metrics.jsonl',
      '--set',
      'agent.metrics_every=0s',
    ]
    if '--listen' not in arguments:
      fixed += ['--listen', '127.0.0.1:0']
    return self.start(name, *fixed, *arguments, **options)

  def joiner(self, name, address, *arguments, **options):
    """An agent that knows an address and nothing of the swarm."""
    return self.agent(name, '--bootstrap', address, *arguments, **options)

  def registry(self, name, port, *arguments, **options):
    state = self.folder / name / 'state'
    return self.start(name, 'bootstrap', '--listen', f'127.0.0.1:{port}', '--state', state, *arguments, **options)

  def swarm(self, count, config, *arguments):
    """A registry and agents a, b, c, ...; returns the port and the agents once all of them have joined."""
    port = free_port_pair()
    self.bootstrap = self.registry('bootstrap', port)
    agents = [
      self.agent(chr(ord('a') + i), '--config', config, '--bootstrap', f'127.0.0.1:{port}', *arguments)
      for i in range(count)
    ]
    for agent in agents:
      self.joined(agent)
    self.wait(lambda: all(agent.done() >= 3 for agent in agents), 'exchanges between all agents')
    return port, agents

  def joined(self, agent, how=None):
    self.wait(lambda: agent.last('joined') or not agent.running(), f'{agent.name} to join')
    event = agent.last('joined')
    if event is None:
      self.fail(f'{agent.name} ended before it had joined' + self.logs())
    if how:
      self.assertEqual(event['how'], how, self.logs())
    return event

  def wait(self, condition, what, seconds=PATIENCE):
    """Returns what the condition came to once it holds."""
    deadline = time.monotonic() + seconds
    while True:
      value = condition()
      if value:
        return value
      if time.monotonic() > deadline:
        self.fail(f'waited {seconds} s in vain for: {what}' + self.logs())
      pause(0.05)

  def wait_end(self, process, seconds=PATIENCE):
    """The exit status; negative for a signal."""
    self.wait(lambda: not process.running(), f'the end of {process.name}', seconds)
    return process.child.returncode

  def wait_log(self, process, *texts, seconds=PATIENCE):
    for text in texts:
      self.wait(lambda: text in process.log(), f'"{text}" in the log of {process.name}', seconds)

  def interrupt(self, process):
    """Ctrl-C: the exit status, and how many seconds it took."""
    began = time.monotonic()
    process.send(signal.SIGINT)
    status = self.wait_end(process)
    return status, time.monotonic() - began

  def assert_one_model(self, agents):
    """What they would take home differs by no more than swarm.consensus_tolerance allows."""
    models = []
    for agent in agents:
      path = self.folder / f'{agent.name}.safetensors'
      command = self.start(f'export-{agent.name}', 'export', '--state', agent.state, path)
      self.assertEqual(self.wait_end(command), 0, command.log())
      models.append(weights(path))
    for agent, model in zip(agents[1:], models[1:], strict=True):
      apart = math.dist(models[0], model) / math.hypot(*models[0])
      self.assertLess(apart, 0.05, f'{agents[0].name} and {agent.name}' + self.logs())

  def assert_all_run(self, processes):
    for process in processes:
      self.assertTrue(process.running(), f'{process.name} ended' + self.logs())

  def logs(self):
    text = ''
    for process in self.processes:
      tail = process.log().splitlines()[-15:]
      state = 'running' if process.running() else f'ended with {process.child.returncode}'
      text += f'\n--- {process.name} ({state})\n' + '\n'.join(tail)
    return text


class TapResult(unittest.TestResult):
  """One TAP line a case; what went wrong as comments under it."""

  def __init__(self):
    super().__init__()
    self.count = 0
    self.failed_parts, self.skipped_parts = set(), {}

  def line(self, good, test, remark='', details=''):
    self.count += 1
    name = test.id().split('.', 1)[-1]
    print(f'{"ok" if good else "not ok"} {self.count} - {name}{remark}', flush=True)
    for detail in details.splitlines():
      print(f'# {detail}', flush=True)

  def addSuccess(self, test):
    self.line(True, test)

  def addSkip(self, test, reason):
    super().addSkip(test, reason)
    if hasattr(test, 'test_case'):  # a part
      self.skipped_parts[test.test_case.id()] = f'{test._subDescription()}: {reason}'
    else:
      self.line(True, test, f' # SKIP {reason}')

  def addError(self, test, error):
    super().addError(test, error)
    self.line(False, test, details=describe(error))

  def addFailure(self, test, error):
    super().addFailure(test, error)
    self.line(False, test, details=describe(error))

  def addSubTest(self, test, subtest, error):
    super().addSubTest(test, subtest, error)
    if error is not None:  # what went well is one line of the whole test
      self.failed_parts.add(test.id())
      print(f'# in {subtest._subDescription()}', flush=True)
      for detail in describe(error).splitlines():
        print(f'# {detail}', flush=True)

  def stopTest(self, test):
    super().stopTest(test)
    if test.id() in self.failed_parts:
      self.line(False, test)
    elif test.id() in self.skipped_parts:
      self.line(True, test, f' # SKIP in part, {self.skipped_parts[test.id()]}')


def describe(error):
  """The lines of the tests themselves, then what was raised; the rest is unittest's."""
  kind, value, trace = error
  frames = [frame for frame in traceback.extract_tb(trace) if 'unittest' not in pathlib.Path(frame.filename).parts]
  places = [f'{pathlib.Path(frame.filename).name}:{frame.lineno}: {frame.line}' for frame in frames]
  return '\n'.join(places + traceback.format_exception_only(kind, value))


def main():
  """Runs the cases of the calling file; with arguments, those whose name contains one of them."""
  everything = unittest.defaultTestLoader.loadTestsFromModule(sys.modules['__main__'])
  cases = [case for group in everything for case in group]
  if sys.argv[1:]:
    cases = [case for case in cases if any(word in case.id() for word in sys.argv[1:])]
  # A shell starts what it puts into the background with SIGINT ignored, and agents would inherit that.
  signal.signal(signal.SIGINT, signal.default_int_handler)
  print(f'1..{len(cases)}', flush=True)
  result = TapResult()
  for case in cases:
    case.run(result)
  sys.exit(0 if result.wasSuccessful() else 1)
