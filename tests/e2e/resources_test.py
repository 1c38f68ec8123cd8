"""Disks that are full, and files that others change or remove while an agent runs."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading

import swarm

ROOT = os.geteuid() == 0
NOBODY = 65534
MIB = 1 << 20


class SmallDisk(swarm.Case):
  DIMENSION = 100_000

  def test_a_run_on_a_full_disk_goes_on_and_ends_with_4(self):
    """State, metrics and log on one disk, which fills up."""
    small = self.small_disk()
    config = self.quadratic(dimension=self.DIMENSION, every='300ms')
    first = self.agent('a', '--config', config)
    self.joined(first)
    with open(small / 'log', 'wb') as log:
      agent = self.agent(
        'b',
        *('--bootstrap', first.address(), '--log-level', 'debug', '--set', 'agent.checkpoint.every=300ms'),
        state=small / 'state',
        streams={'stderr': log},
      )
    self.joined(agent)
    self.wait(lambda: len(agent.events('checkpoint')) >= 3, 'checkpoints')
    self.fill(small)
    self.wait(lambda: 'error' in agent.last('checkpoint'), 'a failure')
    done = first.done()
    self.wait(lambda: first.done() > done + 20, 'exchanges of the agent on the full disk')
    asks = [swarm.PROGRAM, 'status', '--once', '--state', first.state]
    told = ' +'.join(['b', 'training', '.*its last checkpoint failed: look at its log'])
    self.wait(lambda: re.search(told, subprocess.check_output(asks, text=True)), 'the failure in the status')
    (small / 'filler').unlink()
    self.wait(lambda: not re.search(told, subprocess.check_output(asks, text=True)), 'the status without it')
    self.fill(small)
    self.wait(lambda: 'error' in agent.last('checkpoint'), 'a failure')
    self.assertEqual(self.interrupt(agent)[0], 4, self.logs())

  def test_lost_lines_of_the_log_are_said_once_there_is_room(self):
    small = self.small_disk()
    with open(small / 'log', 'wb') as log:
      agent = self.agent(
        'a', '--config', self.quadratic(every='300ms'), '--log-level', 'debug', streams={'stderr': log}
      )
    self.joined(agent)
    self.fill(small)
    self.wait(lambda: (small / 'log').stat().st_size % 4096 == 0, 'the last page of the log to be full')
    steps = agent.steps()
    self.wait(lambda: agent.steps() > steps + 300, 'steps without a log')
    (small / 'filler').unlink()
    self.wait(lambda: 'lines are missing so far' in (small / 'log').read_text(), 'the notice')
    self.assertIn('No space left on device', (small / 'log').read_text())

  def test_a_disk_that_is_full_at_the_start(self):
    small = self.small_disk()
    self.fill(small)
    agent = self.agent('a', '--config', self.quadratic(), state=small / 'state')
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    for part in ('No space left on device', 'free space, or choose a folder'):
      self.assertIn(part, agent.log())

  def test_a_disk_becomes_read_only(self):
    small = self.small_disk()
    agent = self.agent('a', '--config', self.quadratic(every='300ms'), state=small / 'state')
    self.wait(lambda: len(agent.events('checkpoint')) >= 2, 'checkpoints')
    if subprocess.run(['mount', '-o', 'remount,ro', small], capture_output=True).returncode != 0:
      self.skipTest('may not make a disk read-only here')
    failed = self.wait(lambda: next((e for e in agent.events('checkpoint') if 'error' in e), None), 'a failure')
    self.assertIn('that disk is read-only', failed['error'])
    self.assertEqual(self.interrupt(agent)[0], 4, self.logs())


class ChangedFiles(swarm.Case):
  def donor(self, dimension=3_000_000):
    """An agent that serves one checkpoint of several blocks, and makes the next one much later: also once a newcomer
    has asked, as its steps are few by then."""
    config = self.quadratic(dimension=dimension, every='10m')
    agent = self.agent('a', '--config', config, environment={'STARLING_TEST_COMPUTE_MS': '100'})
    self.wait(lambda: agent.events('checkpoint'), 'the first checkpoint')
    return agent, next((agent.state / 'checkpoints').glob('*.ckpt'))

  def fetch_after(self, spoil):
    donor, served = self.donor()
    spoil(served)
    newcomer = self.joiner('b', donor.address())
    self.joined(newcomer, 'fetched')
    self.wait(lambda: newcomer.done() >= 2, 'exchanges')
    self.assert_all_run([donor, newcomer])
    return donor, served

  def test_a_served_checkpoint_is_cut_short(self):
    donor, served = self.fetch_after(lambda path: os.truncate(path, 4096))
    self.assertIn(f'the checkpoint {served} was changed by another program', donor.log())

  def test_a_served_checkpoint_is_overwritten_in_place(self):
    """As by `rsync --inplace` or cp: the same size, other bytes."""

    def overwrite(path):
      with open(path, 'r+b') as file:
        file.seek(1_000_000)
        file.write(bytes(5_000_000))

    donor, served = self.fetch_after(overwrite)
    self.assertIn(f'the checkpoint {served} was changed by another program', donor.log())

  def test_a_served_checkpoint_is_removed(self):
    donor, _ = self.fetch_after(lambda path: path.unlink())
    self.assertNotIn('was changed by', donor.log())

  def test_checkpoints_change_all_the_time_while_newcomers_fetch(self):
    config = self.quadratic(dimension=1_000_000, every='200ms')
    donor = self.agent('a', '--config', config)
    self.wait(lambda: donor.events('checkpoint'), 'the first checkpoint')
    over = threading.Event()

    def spoil():
      while not over.wait(0.01):
        for path in (donor.state / 'checkpoints').glob('*.ckpt'):
          with contextlib.suppress(OSError):
            os.truncate(path, path.stat().st_size // 2)

    spoiler = threading.Thread(target=spoil)
    spoiler.start()
    try:
      for name in 'bcd':
        newcomer = self.joiner(name, donor.address())
        swarm.pause(3)
        newcomer.kill()
        self.assert_all_run([donor])
    finally:
      over.set()
      spoiler.join()

  def removed_while_it_runs(self, remove):
    agent = self.agent('a', '--config', self.quadratic(every='300ms'))
    self.wait(lambda: len(agent.events('checkpoint')) >= 2, 'checkpoints')
    begun = len(agent.events('checkpoint'))
    remove(agent)
    self.wait(lambda: len(agent.events('checkpoint')) > begun + 2, 'further checkpoints')
    self.assertNotIn('error', agent.last('checkpoint'))
    peer, steps = agent.peer(), agent.steps()
    self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
    named = [line for line in agent.log().splitlines() if 'the model is in' in line][-1].split()[-1]
    self.assertTrue(pathlib.Path(named).exists(), named)
    returned = self.agent('a', '--alone')
    self.assertGreaterEqual(self.wait(lambda: returned.last('joined', how='resumed'), 'the return')['steps'], steps)
    self.assertEqual(returned.peer(), peer)
    return agent

  def test_a_removed_state_folder_is_made_again(self):
    agent = self.removed_while_it_runs(lambda agent: shutil.rmtree(agent.state))
    self.assertIn(f'the state folder {agent.state} was removed', agent.log())
    self.assertEqual(agent.state.stat().st_mode & 0o777, 0o700)

  def test_a_state_folder_that_was_moved_away_is_made_again(self):
    self.removed_while_it_runs(lambda agent: agent.state.rename(self.folder / 'elsewhere'))

  def test_removed_checkpoints_alone(self):
    agent = self.removed_while_it_runs(lambda agent: shutil.rmtree(agent.state / 'checkpoints'))
    self.assertIn('was removed, with all checkpoints in it', agent.log())

  def test_a_folder_that_cannot_be_made_again_is_said_and_the_status_is_not_0(self):
    agent = self.agent('a', '--config', self.quadratic(every='300ms'))
    self.wait(lambda: len(agent.events('checkpoint')) >= 2, 'checkpoints')
    shutil.rmtree(agent.state)
    agent.state.write_text('something else')
    self.wait(lambda: 'error' in agent.last('checkpoint'), 'a failure')
    self.assertEqual(self.interrupt(agent)[0], 4, self.logs())
    for line in agent.log().splitlines()[-5:]:
      self.assertNotIn('.ckpt', line)


class Owners(swarm.Case):
  def ended_agent(self, name='a'):
    agent = self.agent(name, '--config', self.quadratic())
    self.joined(agent)
    self.assertEqual(self.interrupt(agent)[0], 0)
    return agent

  def test_a_key_that_others_may_read_is_closed_with_a_warning(self):
    for mode in (0o644, 0o640, 0o666):
      agent = self.ended_agent(f'a{mode:o}')
      key = agent.state / 'identity.key'
      key.chmod(mode)
      returned = self.agent(agent.name, '--alone')
      self.wait(lambda: returned.last('joined', how='resumed'), 'the return')
      self.assertIn(f'{key} holds a private key that other users could open', returned.log())
      self.assertEqual(key.stat().st_mode & 0o777, 0o600)
      returned.kill()

  def test_a_key_of_another_owner_is_refused(self):
    if not ROOT:
      self.skipTest('only root may give a file away')
    agent = self.ended_agent()
    os.chown(agent.state / 'identity.key', 12345, -1)
    returned = self.agent('a', '--alone')
    self.assertEqual(self.wait_end(returned), 1)
    self.assertIn('belongs to another user', returned.log())

  def test_a_state_folder_within_one_that_is_read_only(self):
    """As in a container whose image is read-only, with a volume in it."""
    outer = self.folder / 'image'
    state = outer / 'state'
    state.mkdir(parents=True)
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=0700', 'tmpfs', state], capture_output=True).returncode != 0:
      self.skipTest('may not mount here')
    self.addCleanup(subprocess.run, ['umount', '-l', state], capture_output=True)
    outer.chmod(0o555)
    agent = self.agent('a', '--config', self.quadratic(), state=state)
    self.wait(lambda: agent.events('checkpoint'), 'a checkpoint')
    self.assertEqual(self.interrupt(agent)[0], 0, self.logs())

  def test_a_folder_of_a_group_is_used_below_it(self):
    """root:group with mode 2770, as a volume in Kubernetes: the remedy works as it is printed."""
    if not ROOT:
      self.skipTest('only root may give a folder away')
    self.folder.chmod(0o755)
    user = NOBODY
    volume = self.folder / 'volume'
    volume.mkdir()
    os.chown(volume, 0, user)
    volume.chmod(0o2770)
    config = self.quadratic()
    config.chmod(0o644)
    for name in 'ab':
      (self.folder / name).mkdir()
      os.chown(self.folder / name, user, user)
    if subprocess.run([pathlib.Path(swarm.PROGRAM).resolve(), '--version'], user=user, capture_output=True).returncode:
      self.skipTest('another user may not run the program from here')
    options = {'user': user, 'working': volume}
    agent = self.agent('a', '--config', config, state=volume, **options)
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    self.assertNotIn('chmod', agent.log())
    below = volume / 'starling-state'
    self.assertIn(f'with --state, such as {below}', agent.log())
    agent = self.agent('b', '--config', config, state=below, **options)
    self.wait(lambda: agent.events('checkpoint'), 'a checkpoint')
    self.assertEqual(self.interrupt(agent)[0], 0, self.logs())

  def test_a_disk_without_modes(self):
    """vfat, as on a USB stick: no modes, no hard links. It works where the mount closes it, else the remedy fits."""
    image = self.folder / 'vfat'
    with open(image, 'wb') as file:
      file.truncate(8 * MIB)
    mountpoint = self.folder / 'stick'
    mountpoint.mkdir()
    if shutil.which('mkfs.vfat') is None or subprocess.run(['mkfs.vfat', image], capture_output=True).returncode != 0:
      self.skipTest('there is no mkfs.vfat here')
    self.addCleanup(subprocess.run, ['umount', '-l', mountpoint], capture_output=True)
    for options, works in (('loop,umask=077', True), ('loop,umask=000', False)):
      if subprocess.run(['mount', '-o', options, image, mountpoint], capture_output=True).returncode != 0:
        self.skipTest('may not mount vfat here')
      agent = self.agent(f'a{works}', '--config', self.quadratic(), state=mountpoint / f'state{works}')
      if works:
        self.wait(lambda: agent.events('checkpoint'), 'a checkpoint')
        self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
      else:
        self.assertEqual(self.wait_end(agent), 1, self.logs())
        self.assertIn('umask=077', agent.log())
      subprocess.run(['umount', mountpoint], check=True)


class StrangeDisks(swarm.Case):
  """A library before libc refuses what CIFS, 9p, FUSE, vfat and NFS refuse."""

  SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
static int told(const char* name) { const char* text = getenv(name); return text ? atoi(text) : 0; }
int fsync(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  struct stat info;
  if (told("NO_SYNC") && fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) { errno = told("NO_SYNC"); return -1; }
  return real(fd);
}
int link(const char* from, const char* to) {
  int (*real)(const char*, const char*) = dlsym(RTLD_NEXT, "link");
  if (told("NO_LINK")) { errno = told("NO_LINK"); return -1; }
  return real(from, to);
}
int flock(int fd, int what) {
  int (*real)(int, int) = dlsym(RTLD_NEXT, "flock");
  if (told("NO_LOCK")) { errno = told("NO_LOCK"); return -1; }
  return real(fd, what);
}
"""

  def test_no_sync_of_folders_no_hard_links_and_no_locks(self):
    shim = self.before_libraries(self.SHIM)
    kinds = {  # errno: EINVAL 22, EOPNOTSUPP 95, EPERM 1, ENOSYS 38, ENOLCK 37
      'cifs': {'NO_SYNC': '22', 'NO_LINK': '95'},
      'fuse': {'NO_SYNC': '38', 'NO_LINK': '1', 'NO_LOCK': '38'},
      'nfs': {'NO_LOCK': '37'},
      'all': {'NO_SYNC': '95', 'NO_LINK': '38', 'NO_LOCK': '95'},
    }
    for name, told in kinds.items():
      with self.subTest(disk=name):
        environment = {**shim, **told}
        agent = self.agent(name, '--config', self.quadratic(every='300ms'), environment=environment)
        self.wait(lambda: len(agent.events('checkpoint')) >= 3, 'checkpoints')
        self.assertNotIn('error', agent.last('checkpoint'))
        status = subprocess.run(
          [swarm.PROGRAM, 'status', '--once', '--state', agent.state],
          env={**os.environ, **environment},
          capture_output=True,
          text=True,
        )
        self.assertEqual(status.returncode, 0, status.stderr)
        self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
        self.assertEqual(agent.log().count('cannot sync folders'), 1 if 'NO_SYNC' in told else 0, agent.log())
        self.assertEqual(agent.log().count('cannot be locked'), 1 if 'NO_LOCK' in told else 0, agent.log())
        returned = self.agent(name, '--alone', environment=environment)
        self.wait(lambda: returned.last('joined', how='resumed'), 'the return')
        self.assertEqual(returned.peer(), agent.peer())
        returned.kill()


class Memory(swarm.Case):
  def network(self, hidden, exchange='{kind: pairwise, deadline_max: 60s}', momentum=0.9, agents=1):
    path = self.folder / 'network.yaml'
    path.write_text(
      f'swarm:\n  model: {{kind: mlp, input: [1, 28, 28], classes: 10, hidden: {hidden}}}\n'
      f'  optimizer: {{learning_rate: 0.001, momentum: {momentum}}}\n  exchange: {exchange}\n'
      f'  batch: 8\n  stop_after: 12\n  wait_for: {agents}\n'
      'agent:\n  threads: 1\n  evaluate_every: 1h\n  data: {path: generated}\n'
    )
    return path

  def program(self, *arguments, **options):
    done = subprocess.run([swarm.PROGRAM, *arguments], capture_output=True, text=True, cwd=self.folder, **options)
    return done.returncode, done.stdout + done.stderr

  def foretold(self, config):
    """Bytes of memory, as check prints them."""
    status, text = self.program('check', config, '--json')
    self.assertEqual(status, 0, text)
    return json.loads(text)['memory_bytes']

  def test_check_says_what_an_exchange_sends(self):
    for exchange, bytes_each in (('{kind: pairwise, codec: modulo8}', 1), ('{kind: group, codec: bf16}', 4)):
      config = self.network([2000], exchange=exchange)
      status, text = self.program('check', config, '--json')
      self.assertEqual(status, 0, text)
      found = json.loads(text)
      self.assertAlmostEqual(found['params'], 784 * 2000 + 2000 + 2000 * 10 + 10, delta=16)  # tensors are aligned
      self.assertLess(abs(found['exchange_bytes'] / (bytes_each * found['params']) - 1), 0.05, text)
      text = self.program('check', config)[1]
      self.assertRegex(
        text, r'an exchange sends at most [0-9.]+ MB each way: [0-9.]+ s at 10 Mb/s, [0-9.]+ s at 1 Gb/s'
      )

  def test_check_refuses_what_an_agent_refuses(self):
    config = self.network([10])
    self.assertEqual(self.program('check', config)[0], 0)
    status, text = self.program('check', config, '--set', 'swarm.exchange.fragments=4')
    self.assertEqual(status, 1, text)
    self.assertIn('fragments: 4 need as many blocks', text)
    self.assertNotIn('ok', text)

  def test_a_model_that_fits_nowhere_is_refused_before_it_is_made(self):
    config = self.network([65_536] * 4)  # 280 GB
    for words in (['check', config], ['swarm', '--agents', '3', '--out', 'out', '--config', config]):
      status, text = self.program(*words)
      self.assertEqual(status, 1, text)
      self.assertRegex(text, r'of memory, and .* only .* free; take a smaller model', words)
    agent = self.agent('a', '--config', config)
    self.assertEqual(self.wait_end(agent), 1, agent.log())
    self.assertRegex(agent.log(), r'starling: .*of memory, and .* only .* free; take a smaller model')

  def test_the_limit_of_a_cgroup_counts(self):
    lines = pathlib.Path('/proc/self/cgroup').read_text().splitlines()
    own = next((line for line in lines if 'memory' in line.split(':')[1].split(',')), None)
    if own is None:
      self.skipTest('no cgroup of version 1 here')
    group = pathlib.Path('/sys/fs/cgroup/memory' + own.split(':')[2]) / f'starling-test-{os.getpid()}'
    try:
      group.mkdir()
      (group / 'memory.limit_in_bytes').write_text('300000000')
    except OSError as error:
      self.skipTest(f'may not make a cgroup here: {error}')
    self.addCleanup(group.rmdir)
    config = self.network([4000, 4000])

    def enter():
      (group / 'cgroup.procs').write_text(str(os.getpid()))

    self.assertEqual(self.program('check', config)[0], 0)
    status, text = self.program('check', config, preexec_fn=enter)
    self.assertEqual(status, 1, text)
    self.assertRegex(text, r'its cgroup allows only 2\d\d\.\d MB free')

  def test_the_need_is_foretold(self):
    """Of networks drawn at random, the highest use of two agents, read from the kernel."""
    seed = random.randrange(2**32)
    drawn = random.Random(seed)
    for exchange in ('{kind: pairwise, deadline_max: 60s}', '{kind: group, codec: bf16, deadline_max: 60s}'):
      hidden = [drawn.randrange(1000, 4000), drawn.randrange(1000, 4000)]
      with self.subTest(f'seed {seed}, {hidden}, {exchange}'):
        config = self.network(hidden, exchange, drawn.choice([0, 0.9]), agents=2)
        first = self.agent(f'a{hidden}', '--config', config)
        self.wait(lambda first=first: first.last('start'), 'an address')
        second = self.joiner(f'b{hidden}', first.address(), '--config', config)
        highest = 0
        while first.running() and second.running():
          for agent in (first, second):
            highest = max(highest, self.highest_use(agent))
          swarm.pause(0.05)
        self.assertEqual([self.wait_end(agent) for agent in (first, second)], [0, 0], self.logs())
        self.assertLess(abs(highest / self.foretold(config) - 1), 0.2, f'{highest} bytes')

  def highest_use(self, agent):
    try:
      status = pathlib.Path(f'/proc/{agent.child.pid}/status').read_text()
    except OSError:
      return 0
    found = re.search(r'VmHWM:\s*(\d+) kB', status)
    return int(found[1]) * 1024 if found else 0


if __name__ == '__main__':
  swarm.main()
