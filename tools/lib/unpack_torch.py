"""unpack_torch.py WHEELS OUT: takes out of the wheels what C++ needs, in their own relative layout."""
import fnmatch
import pathlib
import shutil
import sys
import zipfile

KEEP = [
  'torch/include/*',
  'torch/lib/libtorch_cpu.so',
  'torch/lib/libc10.so',
  'torch/lib/libgomp.so.1',
  'nvidia/cu13/lib/libcudart.so.13',
  'nvidia/cu13/lib/libcupti.so.13',
]


def main(wheels, out):
  found = set()
  for wheel in sorted(wheels.glob('*.whl')):
    with zipfile.ZipFile(wheel) as archive:
      for name in archive.namelist():
        pattern = next((p for p in KEEP if fnmatch.fnmatchcase(name, p)), None)
        if pattern and not name.endswith('/'):
          found.add(pattern)
          archive.extract(name, out)
    wheel.unlink()
  missing = sorted(set(KEEP) - found)
  if missing:
    shutil.rmtree(out / 'torch', ignore_errors=True)
    sys.exit(f'the wheels hold no {", ".join(missing)}')


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
