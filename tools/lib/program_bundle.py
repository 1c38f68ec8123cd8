"""program_bundle.py PROGRAM OUT.tar.gz LICENSE [--beside-torch VERSION]: packs the program and its libraries.

The archive holds one folder. starling/starling is a script that starts starling/lib/starling with its libraries.
With --beside-torch LibTorch stays out, and the script takes it from the PyTorch of the machine's python3.
"""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

# Every Debian and Ubuntu has these: of the C library, and GCC's.
OF_THE_MACHINE = re.compile(r'(ld-linux[\w.-]*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so')
OF_TORCH = re.compile(r'lib(torch\w*|c10|gomp|cudart|cupti)[\w.-]*\.so')

START = """#!/bin/sh
# Starts starling with the libraries beside it.
set -e
here=$(dirname "$(readlink -f "$0")")
@TORCH@LD_LIBRARY_PATH=$here/lib${torch:+:$torch}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/lib/starling" "$@"
"""
FIND_TORCH = """torch=$(python3 -c '
import importlib.util, pathlib, re, sys
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit("starling: " + sys.executable + " has no torch; pip install torch==@VERSION@")
folder = pathlib.Path(spec.origin).parent
found = re.search(r"__version__ = .([0-9.]*[0-9])", (folder / "version.py").read_text())
if not found or found[1] != "@VERSION@":
    name = found[1] if found else "no version"
    sys.exit("starling: it needs torch @VERSION@, and " + str(folder) + " holds " + name +
             "; pip install torch==@VERSION@")
print(folder / "lib")
')
"""


def libraries(program):
  """name -> path of all that the program loads, as the dynamic linker resolves it here."""
  program = pathlib.Path(program).resolve()  # beside a link to it no libraries lie
  listed = subprocess.run(['ldd', program], check=True, capture_output=True, text=True).stdout
  found = dict(re.findall(r'^\s*(\S+) => (\S.*?) \(0x', listed, re.M))
  missing = re.findall(r'^\s*(\S+) => not found', listed, re.M)
  if missing:
    sys.exit(f'{program} does not find {", ".join(missing)} here; build it anew')
  return found


def stage(program, folder, text, torch_version=None):
  """Makes the folder that the archive holds; with a version, without LibTorch. `text`: the licence."""
  (folder / 'lib').mkdir(parents=True)
  for name, path in libraries(program).items():
    if not OF_THE_MACHINE.match(name) and not (torch_version and OF_TORCH.match(name)):
      shutil.copyfile(path, folder / 'lib' / name)
  subprocess.run(['strip', '-o', folder / 'lib/starling', program], check=True)
  find_torch = FIND_TORCH.replace('@VERSION@', torch_version) if torch_version else ''
  (folder / 'starling').write_text(START.replace('@TORCH@', find_torch))
  for path in folder / 'starling', folder / 'lib/starling':
    path.chmod(0o755)
  (folder / 'LICENSE').write_text(text)


def pack(folder, archive):
  """Equal folders give equal archives."""

  def plain(entry):
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = 'root'
    return entry

  with (
    open(archive, 'wb') as out,
    gzip.GzipFile('', 'wb', 6, out, mtime=0) as packed,
    tarfile.open(fileobj=packed, mode='w') as tar,
  ):
    tar.add(folder, folder.name, filter=plain)


def main(program, archive, license, *beside):
  archive = pathlib.Path(archive)
  archive.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=archive.parent) as place:
    folder = pathlib.Path(place) / 'starling'
    stage(program, folder, pathlib.Path(license).read_text(), beside[1] if beside else None)
    unfinished = pathlib.Path(place) / archive.name
    pack(folder, unfinished)
    unfinished.rename(archive)


if __name__ == '__main__':
  main(*sys.argv[1:])
