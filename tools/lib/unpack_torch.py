"""unpack_torch.py WHEELS OUT: takes out of the wheels what C++ needs, in their own relative layout, and into
OUT/pytorch what `import torch` needs besides. CUDA's libraries are left out: empty ones stand in their place there."""

import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

LIBRARIES = [
  'torch/lib/libtorch_cpu.so',
  'torch/lib/libc10.so',
  'torch/lib/libgomp.so.1',
  'nvidia/cu13/lib/libcudart.so.13',
  'nvidia/cu13/lib/libcupti.so.13',
]
KEEP = ['torch/include/*', *LIBRARIES]
PYTHON = [
  'torch/*.py',
  'functorch/*.py',
  'torch/*.jinja',
  'torchgen/*.py',
  'torch/_C*.so',
  'torch/bin/torch_shm_manager',
  *(f'torch/lib/lib{name}.so' for name in ('c10_cuda', 'shm', 'torch', 'torch_cuda', 'torch_global_deps')),
  *(f'torch/lib/lib{name}.so' for name in ('torch_nvshmem', 'torch_python')),
]
ABSENT = [
  *('libcublas.so.13', 'libcublasLt.so.13', 'libcudnn.so.9', 'libcufft.so.12', 'libcufile.so.0', 'libcurand.so.10'),
  *('libcusparse.so.12', 'libcusparseLt.so.0', 'libnccl.so.2', 'libnvshmem_host.so.3'),
]
# Others' symbols have versions: a library that is asked for one must have a table of them, and any other need not.
WITHOUT_VERSIONS = 'libnccl.so.2'
FUNCTION = re.compile(r'\b((?:cublas|cudnn|cufft|cuFile|curand|cusparse|nccl|nvshmem)\w+)')


def extract(wheels, out):
  found = set()
  for wheel in sorted(wheels.glob('*.whl')):
    with zipfile.ZipFile(wheel) as archive:
      for name in archive.namelist():
        for patterns, folder in ((KEEP, out), (PYTHON, out / 'pytorch')):
          pattern = next((p for p in patterns if fnmatch.fnmatchcase(name, p)), None)
          if pattern and not name.endswith('/'):
            found.add(pattern)
            archive.extract(name, folder)
    wheel.unlink()
  missing = sorted({*KEEP, *PYTHON} - found)
  if missing:
    shutil.rmtree(out / 'torch', ignore_errors=True)
    sys.exit(f'the wheels hold no {", ".join(missing)}')


def put_empty_libraries(folder):
  users = [folder / f'libtorch_{name}.so' for name in ('cuda', 'nvshmem', 'python')]
  asked = subprocess.run(['nm', '-D', '--undefined-only', *users], check=True, capture_output=True, text=True).stdout
  stops = ''.join(f'void {name}(void) {{ __builtin_trap(); }}\n' for name in sorted(set(FUNCTION.findall(asked))))
  for name in ABSENT:
    build = ['gcc', '-shared', '-fPIC', '-w', f'-Wl,-soname,{name}', '-o', folder / name, '-x', 'c', '-']
    subprocess.run(build, check=True, text=True, input=stops if name == WITHOUT_VERSIONS else '')


def main(wheels, out):
  extract(wheels, out)
  for library in LIBRARIES:
    twin = out / 'pytorch' / library
    twin.parent.mkdir(parents=True, exist_ok=True)
    os.link(out / library, twin)
  put_empty_libraries(out / 'pytorch/torch/lib')


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
