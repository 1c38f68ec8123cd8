"""Every C++ and Python file is formatted, and `ruff check` finds nothing. First the check must find what is planted."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
PLANTED = {  # name -> (a text that the check accepts, one that it refuses)
  'a.cpp': ('int f() { return 1; }\n', 'int  f() { return 1; }\n'),
  'b.h': ('#pragma once\nint f(int a);\n', '#pragma once\nint f(int a) ;\n'),
  'c.py': ('def f(a):\n  return a\n', 'def f(a):\n    return a\n'),
  'd.py': ('import os\n\nprint(os.name)\n', 'import os\n\nprint(1)\n'),
}


def check(*files):
  done = subprocess.run([ROOT / 'tools/format', '--check', *files], capture_output=True, text=True)
  if done.returncode == SKIPPED:
    print(done.stderr, end='')
    sys.exit(SKIPPED)
  return done.returncode, done.stdout + done.stderr


with tempfile.TemporaryDirectory() as folder:
  for name, texts in PLANTED.items():
    file = pathlib.Path(folder) / name
    for text, expected in zip(texts, (0, 1)):
      file.write_text(text)
      code, said = check(file)
      if code != expected:
        sys.exit(f'tools/format --check ends with {code}, not {expected}, for {name}: {text!r}\n{said}')
code, said = check()
print(said, end='')
sys.exit(code)
