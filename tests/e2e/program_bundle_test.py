"""The archive of tools/bundle --program runs on a bare machine, and asks no more of it than Ubuntu 22.04 has."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import swarm

sys.path.insert(0, str(swarm.ROOT / 'tools/lib'))
import program_bundle

# Ubuntu 22.04: glibc 2.35, and the libstdc++ of GCC 12. Debian 12 has these or later ones.
BOUNDS = {'GLIBC': (2, 35), 'GLIBCXX': (3, 4, 30), 'CXXABI': (1, 3, 13)}
BARE = ['/bin/sh', '/usr/bin/dirname', '/usr/bin/readlink']
TRAIN = """
cd /home
starling/starling --version
starling/starling init --task digits swarm.yaml >init.log
starling/starling agent --config swarm.yaml --data generated --listen 127.0.0.1:0 --wait-for 1 \\
  --set swarm.stop_after=20 2>agent.log
starling/starling eval --data generated
starling/starling export model.pt
"""


def version(text):
  return tuple(int(part) for part in text.split('.'))


def needs(path):
  """(libraries that the file loads, (name, version) of the symbols it asks for)"""
  read = subprocess.run(['readelf', '-W', '-d', '-V', path], check=True, capture_output=True, text=True).stdout
  asked = read.partition('Version needs section')[2]
  return re.findall(r'\(NEEDED\).*\[(.*)\]', read), set(re.findall(r'Name: ([A-Z]+)_([\d.]+)', asked))


@functools.cache
def root_with_bundle():
  """A folder that ends with the tests; home/starling is what the archive holds."""
  place = tempfile.TemporaryDirectory(prefix='starling-root-')
  linked = pathlib.Path(place.name) / 'linked'  # as build/starling is
  linked.symlink_to(swarm.PROGRAM)
  program_bundle.stage(linked, pathlib.Path(place.name) / 'home/starling', 'a licence')
  return place


class ProgramBundleTest(swarm.Case):
  def test_no_file_asks_for_more_than_ubuntu_22_04_has(self):
    paths = list(pathlib.Path(root_with_bundle().name, 'home/starling/lib').iterdir())
    bundled = {path.name for path in paths}
    self.assertLessEqual({'starling', 'libtorch_cpu.so', 'libzmq.so.5'}, bundled)
    for path in paths:
      with self.subTest(path.name):
        loaded, symbols = needs(path)
        self.assertGreater(len(symbols), 0)
        for name, text in symbols:
          if name in BOUNDS:
            self.assertLessEqual(version(text), BOUNDS[name], f'{name}_{text}')
        for name in loaded:
          self.assertTrue(name in bundled or program_bundle.OF_THE_MACHINE.match(name), name)

  def test_it_trains_where_only_the_c_library_is(self):
    if os.geteuid() != 0:
      self.skipTest('only root can change the root folder')
    root = pathlib.Path(root_with_bundle().name)
    for name in ['proc', 'tmp']:
      (root / name).mkdir()
    loaded = program_bundle.libraries(swarm.PROGRAM)
    files = BARE + [path for name, path in loaded.items() if program_bundle.OF_THE_MACHINE.match(name)]
    for name in BARE:
      listed = subprocess.run(['ldd', name], check=True, capture_output=True, text=True).stdout
      files += re.findall(r'(/\S+) \(0x', listed)
    for path in files:
      (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
      shutil.copyfile(path, root / path[1:])
      (root / path[1:]).chmod(0o755)
    script = f'mount -t proc proc {root}/proc && exec chroot {root} /bin/sh -ec "$0"'
    command = ['unshare', '--mount', '--pid', '--fork', 'sh', '-c', script, TRAIN]
    environment = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/home'}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if 'Operation not permitted' in result.stderr:
      self.skipTest(f'no namespaces here: {result.stderr.strip()}')
    logs = ''.join(path.read_text() for path in (root / 'home').glob('*.log'))
    self.assertEqual(result.returncode, 0, result.stdout + result.stderr + logs)
    self.assertIn('generated: 1000 samples, accuracy', result.stdout)
    self.assertIn('wrote model.pt: cnn, ', result.stdout)

  def test_beside_torch_it_takes_the_machines_own(self):
    archive = self.folder / 'out/starling.tar.gz'
    program_bundle.main(swarm.PROGRAM, archive, swarm.ROOT / 'LICENSE', '--beside-torch', '9.8.7')
    self.assertLess(archive.stat().st_size, 20 << 20)
    self.assertEqual(os.listdir(archive.parent), ['starling.tar.gz'])
    with tarfile.open(archive) as tar:
      self.assertFalse([name for name in tar.getnames() if program_bundle.OF_TORCH.match(pathlib.Path(name).name)])
      tar.extractall(self.folder)
    link = self.folder / 'starling-link'
    link.symlink_to('starling/starling')

    def run():
      environment = {'PATH': '/usr/bin:/bin', 'PYTHONPATH': str(self.folder / 'site')}
      return subprocess.run([link, '--version'], env=environment, capture_output=True, text=True)

    torch = self.folder / 'site/torch'
    torch.mkdir(parents=True)
    (torch / '__init__.py').write_text('raise RuntimeError("it is found without being imported")')
    (torch / 'version.py').write_text("__version__ = '9.8.6+cu1'\n")
    self.assertIn('it needs torch 9.8.7, and', run().stderr)
    (torch / 'version.py').write_text("__version__ = '9.8.7+cu1'\n")
    (torch / 'lib').mkdir()
    for name, path in program_bundle.libraries(swarm.PROGRAM).items():
      if program_bundle.OF_TORCH.match(name):
        (torch / 'lib' / name).symlink_to(path)
    result = run()
    self.assertEqual((result.returncode, result.stderr), (0, ''))
    self.assertRegex(result.stdout, r'^starling \d')
    shutil.rmtree(torch)
    result = run()
    self.assertEqual(result.returncode, 1)
    self.assertIn('has no torch; pip install torch==9.8.7', result.stderr)


if __name__ == '__main__':
  swarm.main()
