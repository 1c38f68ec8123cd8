"""tidy_test.py ROOT: the rules of this house that a compiler does not know, reported as TAP, one case a rule.
tidy_test.py ROOT --words [FOLDER...]: what the writing rule finds, in these folders or counted by folder.

Each rule is a function from a tree (path -> text) to findings (path, line, what is wrong). Before a rule is believed,
it is shown trees with one planted break each, and must report it.
"""

import collections
import pathlib
import re
import subprocess
import sys
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / 'support'))
sys.dont_write_bytecode = True
import words  # noqa: E402

LAYERS = ['kernels', 'compression', 'gossip', 'bootstrap', 'agent']  # lowest first


class House(typing.NamedTuple):
  """A folder whose rooms have an order: lowest first, `files` for what lies in no room."""

  rooms: list
  strangers: set  # (room, a lower one that it may not include all the same)
  share_max: float  # of the folder's lines in one room


EXCHANGES = ['pairs', 'group', 'neighborhood', 'updates']
HOUSES = {
  'agent': House(
    # fmt: off
    [
      'report',
      'observe',
      'data',
      'train',
      'state',
      'config',
      'share',
      'run',
      'process',
      'attach',
      'local',
      'simulate',
      'commands',
      'files',
    ],
    # fmt: on
    {('simulate', 'local'), ('simulate', 'process'), ('local', 'run'), ('local', 'share')},
    0.2,
  ),
  'gossip': House(
    ['files', 'net', 'membership', 'sim', 'exchange', *EXCHANGES],
    {('sim', 'membership'), ('exchange', 'membership'), ('exchange', 'sim')}
    | {(one, other) for one in EXCHANGES for other in ['membership', 'sim', *EXCHANGES] if one != other},
    0.3,
  ),
}
FOLDERS = LAYERS + ['configs', 'tests', 'tools']
PAGES = ['README', 'CONTRIBUTING', 'CHANGELOG', 'SECURITY', 'TROUBLES']
TOP_FILES = {'meson.build', 'meson_options.txt', 'pyproject.toml', 'LICENSE', *(f'{page}.md' for page in PAGES)}

CODE = ('.h', '.cpp', '.cu', '.cuh')
TEXT = CODE + ('.py', '.sh', '.capnp', '.build', '.txt', '.yaml', '.md')
MAX_LINE = 120
MAX_FUNCTION_LINES = 70
MAX_README_LINES = 60

# (what it is, how its includes look, the files that may, at most so many of them)
WALLS = [
  ('ZeroMQ', r'zmq[\w.]*\.hp*$', r'gossip/net/(zmq_transport|link_gate|handshakes)\.cpp', 3),
  ("Cap'n Proto", r'(capnp|kj)/|.*\.capnp\.h$', r'gossip/net/wire((|_get|_put)\.cpp|_convert\.h)', 4),
  ('libsodium', r'sodium(\.h$|/)', r'gossip/net/identity\.cpp', 1),
  ('CLI11', r'CLI/', r'agent/commands/(cli|subcommand)\.cpp', 2),
  ('Eigen', r'Eigen/', r'gossip/exchange/topology_measure\.cpp', 1),
  ('yaml-cpp', r'yaml-cpp/', r'agent/config/tree\.cpp', 1),
  ('zlib', r'zlib\.h$', r'agent/data/byte_stream\.cpp', 1),
  ('libpng', r'png\w*\.h$', r'agent/data/png\.cpp', 1),
  ('libjpeg', r'j(peglib|error)\.h$', r'agent/data/jpeg\.cpp', 1),
  ('LibTorch', r'(torch|ATen|c10|caffe2|oneapi)/', r'agent/train/torch_\w+\.cpp', None),
  ('CUDA', r'(cuda|nv)\w*\.h$|(cub|thrust|cuda|cooperative_groups)/', r'kernels/cuda/.*|.*_cuda\.\w+', None),
]
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def lines_of(tree, suffixes, folders=None):
  for path, text in sorted(tree.items()):
    if path.endswith(suffixes) and (folders is None or path.split('/')[0] in folders):
      for number, line in enumerate(text.splitlines(), 1):
        yield path, number, line


def includes(tree, folders):
  for path, number, line in lines_of(tree, CODE, folders):
    match = INCLUDE.match(line)
    if match:
      yield path, number, match[1], match[2]


def layers(tree):
  """A folder includes only what lies below it; includes are written from the root."""
  for path, number, quote, name in includes(tree, LAYERS):
    own, other = path.split('/')[0], name.split('/')[0]
    if other in LAYERS and LAYERS.index(other) > LAYERS.index(own):
      yield path, number, f'{own} lies below {other} and may not include {name}'
    elif other in ('tests', 'tools'):
      yield path, number, f'production code may not include {name}'
    elif quote == '"' and other not in LAYERS + ['hwy']:
      yield path, number, f'write the path from the root, or <{name}> when it is not ours'


def room_of(path):
  """agent/run/rounds.cpp -> agent, run; agent, files for agent/main.cpp; None, None where no rooms are."""
  parts = path.split('/')
  if parts[0] not in HOUSES:
    return None, None
  return parts[0], parts[1] if len(parts) > 2 else 'files'


def rooms(tree):
  """A room includes only itself and the rooms before it; the exchanges never know each other."""
  for path, number, _, name in includes(tree, HOUSES):
    (house, own), (of, other) = room_of(path), room_of(name)
    order = HOUSES[house].rooms
    if own not in order:
      yield path, number, f'{house}/{own} is no room: choose one of {", ".join(order)}'
    elif of != house:
      continue
    elif other not in order:
      yield path, number, f'{name} lies in no room'
    elif order.index(other) > order.index(own):
      yield path, number, f'room {own} lies below {other} and may not include {name}'
    elif (own, other) in HOUSES[house].strangers:
      yield path, number, f'room {own} may not include {name}: it must work without {other}'


def room_sizes(tree):
  """No room holds more than its share of the folder; a fuller one is two rooms."""
  for name, house in HOUSES.items():
    lines = collections.Counter()
    for path, text in tree.items():
      if path.startswith(f'{name}/') and path.endswith(CODE):
        lines[room_of(path)[1]] += text.count('\n')
    total = sum(lines.values())
    for room, count in lines.items():
      if count > total * house.share_max and total > 1000:
        yield f'{name}/{room}', 1, f'{count} of {total} lines of {name}/: more than {house.share_max:.0%}'


def walls(tree):
  """A third-party library is seen by the files behind its wall only."""
  for what, looks, allowed, most in WALLS:
    inside = set()
    for path, number, _, name in includes(tree, LAYERS):
      if re.match(looks, name):
        if not re.fullmatch(allowed, path):
          yield path, number, f'{what} ({name}) may be included by {allowed} only'
        inside.add(path)
    if most and len(inside) > most:
      yield sorted(inside)[-1], 1, f'{what} is included by {len(inside)} files, not {most}: {", ".join(sorted(inside))}'


def blank(text):
  """The code with comments, literals and preprocessor lines blanked out, every line still where it was."""
  pattern = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
    re.S | re.M,
  )
  return pattern.sub(lambda m: '\n' * m[0].count('\n'), text)


def is_function(head):
  """Whether what stands before a `{` outside any function begins a function's body."""
  head = re.sub(r'\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>', '', head)
  while '(' in head:
    head, before = re.sub(r'\([^()]*\)', ' CALL ', head), head
    if head == before:
      break
  return 'CALL' in head and not re.search(r'\b(namespace|class|struct|union|enum)\b', head) and '=' not in head


def functions(text):
  """(first line, line count) of each function body; what is nested in one counts as part of it."""
  depth, start, head, line = [], None, '', 1
  for char in blank(text):
    line += char == '\n'
    if char == '{':
      depth.append(start is None and is_function(head))
      if depth[-1]:
        start = line
      head = ''
    elif char == '}' and depth:
      if depth.pop():
        yield start, line - start + 1
        start = None
      head = ''
    elif char == ';':
      head = ''
    else:
      head += char


def function_length(tree):
  """No function is longer than a screen."""
  for path, text in sorted(tree.items()):
    if path.endswith(CODE):
      for line, count in functions(text):
        if count > MAX_FUNCTION_LINES:
          yield path, line, f'a function of {count} lines; at most {MAX_FUNCTION_LINES}'


def line_length(tree):
  for path, number, line in lines_of(tree, ('',)):
    if len(line) > MAX_LINE and not path.endswith('.md'):
      yield path, number, f'{len(line)} characters; at most {MAX_LINE}'


def pragma_once(tree):
  """Every header guards itself; Highway's `-inl.h` files are compiled once per instruction set and guard by toggle."""
  for path, text in sorted(tree.items()):
    guarded = path.endswith('-inl.h') or re.search(r'^#pragma once$', text, re.M)
    if path.endswith(('.h', '.cuh')) and not guarded:
      yield path, 1, 'no #pragma once'


def types(text):
  """(line, name with its namespaces) of each type defined at namespace scope; unnamed namespaces apart."""
  spaces, head, line = [], '', 1
  for char in blank(text):
    line += char == '\n'
    if char == '{':
      space = re.search(r'\bnamespace\s*([\w:]*)\s*$', head)
      kind = re.search(
        r'^\s*(?:enum class|enum|struct|class|union)\s+([\w:]+)\s*(?:final\s*)?(?::[^:].*)?$',
        re.sub(r'\btemplate\s*<[^{]*>(?=\s*(?:struct|class))', '', head),
        re.S,
      )
      if kind and all(spaces):
        yield line, '::'.join(spaces + [kind[1]])
      spaces.append(space[1] if space else None)
      head = ''
    elif char == '}' and spaces:
      spaces.pop()
      head = ''
    elif char == ';':
      head = ''
    else:
      head += char


def one_definition(tree):
  """One name, one type: two types of one name are undefined behavior that no compiler reports."""
  homes = {}
  for path, text in sorted(tree.items()):
    if path.endswith(CODE) and path.split('/')[0] in LAYERS:
      for line, name in types(text):
        if homes.setdefault(name, path) != path:
          yield path, line, f'{name} is defined in {homes[name]} too: one of them needs another name'


def no_sleep(tree):
  """A test waits for what it needs, with a deadline; it never sleeps and hopes."""
  for path, number, line in lines_of(tree, CODE + ('.py',), ['tests']):
    if re.search(r'\bsleep_(for|until)\b|\b(u|nano)?sleep *\(', line):
      yield path, number, 'a sleep in a test: wait for the condition, with a deadline'


def banned_words(tree):
  for path, number, line in lines_of(tree, ('',)):
    match = re.search(r'\b(TO' r'DO|FIX' r'ME|X{3})\b', line)
    if match:
      yield path, number, f'{match[0]}: do it now, or say plainly what does not work yet'


def emulated_kernels(tree):
  """Every CUDA kernel runs in every test run: the emulated GPU compiles its file, and the twins' suite includes it."""
  build = tree.get('tests/support/cuda_emulation/meson.build', '')
  listed = re.search(r"foreach name : \[([^\]]*)\]", build)
  emulated = re.findall(r"'(\w+)'", listed[1]) if listed else []
  suites = re.compile(r'tests/kernels/cuda_(\w+_)?twins_test\.cpp')
  suite = ''.join(text for path, text in tree.items() if suites.fullmatch(path))
  for path in sorted(tree):
    name = path.split('/')[-1].removesuffix('.cu')
    if not path.endswith('.cu'):
      continue
    if path != f'kernels/cuda/{name}.cu':
      yield path, 1, 'a .cu file lives in kernels/cuda/, where the emulated GPU takes it from'
    elif name not in emulated:
      yield path, 1, 'is not in tests/support/cuda_emulation/meson.build: nothing runs it without a GPU'
    elif f'#include "kernels/cuda/{name}.h"' not in suite:
      yield path, 1, 'has no test in tests/kernels/cuda_twins_test.cpp or one of its neighbors'


EMULATED = {
  'tests/support/cuda_emulation/meson.build': "foreach name : ['cast',\n  'pair']\n",
  'tests/kernels/cuda_twins_test.cpp': '#include "kernels/cuda/cast.h"\n',
}


def citations(tree):
  """A comment gives its reason: no line sends the reader to a page outside the repository."""
  pages = {path.split('/')[-1] for path in tree}
  for path, number, line in lines_of(tree, TEXT):
    match = re.search(r'\bDES' r'IGN\b|\bsound' r'ness (§|C\d)|§ ?\d', line)
    missing = [name for name in re.findall(r'\b[\w-]+\.md\b', line) if name not in pages]
    if match or missing:
      yield path, number, f'cites {match[0] if match else missing[0]}, which is not here: write the reason itself'


def json_by_hand(tree):
  """JSON is written by its library: text put together by hand breaks at the first quote, newline or NaN."""
  for path, number, line in lines_of(tree, CODE, LAYERS):
    if re.search(r'\\"\w+\\":', line):
      yield path, number, 'JSON by hand: use nlohmann::json'


def top_level(tree):
  """The root holds what it always held."""
  for entry in sorted({path.split('/')[0] for path in tree}):
    if entry not in TOP_FILES and entry not in FOLDERS and not entry.startswith('.'):
      yield entry, 1, 'does not belong at the root'


def readmes(tree):
  """A folder has one page that says what lives there and what may never enter."""
  present = {path.split('/')[0] for path in tree}
  for folder in FOLDERS:
    if folder in present and f'{folder}/README.md' not in tree:
      yield f'{folder}/README.md', 1, 'is missing'
  for path, text in sorted(tree.items()):
    if path.endswith('/README.md') and text.count('\n') > MAX_README_LINES:
      yield path, 1, f'{text.count(chr(10))} lines; at most {MAX_README_LINES}'


def plain_words(tree):
  """Markdown, texts that the program prints and comments of its headers keep to the writing rule."""
  yield from words.findings(tree, LAYERS)
  count = words.markdown_words(tree)
  if count > words.MAX_MARKDOWN:
    yield 'README.md', 1, f'{count} words of Markdown in all; at most {words.MAX_MARKDOWN}'


def print_words(tree, folders):
  """The findings in these folders; then all of them, counted by folder."""
  found = list(words.findings(tree, LAYERS))
  for path, line, what in found:
    if words.is_below(path, folders):
      print(f'{path}:{line}: {what}')
  counts = collections.Counter(words.folder_of(path) for path, _, _ in found)
  pages = collections.defaultdict(dict)
  for path, text in tree.items():
    pages[words.folder_of(path)][path] = text
  print('findings, words of Markdown')
  for folder in sorted(pages):
    print(f'{counts[folder]:5} {words.markdown_words(pages[folder]):6} {folder}')
  print(f'{len(found):5} {words.markdown_words(tree):6} in all; at most 0 and {words.MAX_MARKDOWN}')


LONG_BODY = '  if (a) {\n    b();\n  }\n' * 30
LONG_TEXTS = ['a ' * (words.MAX_SENTENCE + 1) + 'end.', 'word\n' * words.MAX_SENTENCE + 'end. Another one.']
# Each rule with trees that break it: planted once, found once.
RULES = {
  layers: [
    {'kernels/a.h': '#include "gossip/peer.h"\n'},
    {'gossip/net/a.cpp': '#include "agent/config/config.h"\n'},
    {'agent/a.cpp': '#include "tests/support/clock.h"\n'},
    {'agent/a.cpp': '#include "config.h"\n'},
  ],
  rooms: [
    {f'{name}/{low}/a.cpp'.replace('files/', ''): f'#include "{name}/{high}/b.h"\n'.replace('files/', '')}
    for name, house in HOUSES.items()
    for low, high in zip(house.rooms, house.rooms[1:])
  ]
  + [
    {f'{name}/{one}/a.cpp': f'#include "{name}/{other}/b.h"\n'}
    for name, house in HOUSES.items()
    for one, other in sorted(house.strangers)
  ]
  + [{'agent/run/a.cpp': '#include "agent/agent.h"\n'}, {'agent/odd/a.cpp': '#include "agent/run/agent.h"\n'}],
  room_sizes: [
    {
      'agent/run/a.cpp': 'x\n' * 900,
      'agent/data/a.cpp': 'x\n' * 200,
      **{f'agent/{room}/a.cpp': 'x\n' * 199 for room in HOUSES['agent'].rooms if room not in ('run', 'data', 'files')},
      'agent/main.cpp': 'x\n' * 199,
    },
    {
      'gossip/pairs/a.cpp': 'x\n' * 400,
      'gossip/group/a.cpp': 'x\n' * 300,
      'gossip/net/a.cpp': 'x\n' * 300,
      'gossip/a.h': '#pragma once\n' * 290,
    },
  ],
  walls: [
    {'gossip/exchange/a.cpp': '#include <zmq.hpp>\n'},
    {'gossip/net/zmq_address.cpp': '#include <zmq.h>\n'},
    {'gossip/net/wire.h': '#include "gossip/net/wire.capnp.h"\n'},
    {'gossip/net/keys.cpp': '#include <sodium.h>\n'},
    {'agent/main.cpp': '#include <yaml-cpp/yaml.h>\n'},
    {'agent/commands/check.cpp': '#include <CLI/CLI.hpp>\n'},
    {'agent/data/idx.cpp': '#include <zlib.h>\n'},
    {'agent/data/image.h': '#include <png.h>\n#pragma once\n'},
    {'agent/data/png.cpp': '#include <jpeglib.h>\n'},
    {'gossip/exchange/topology.h': '#include <Eigen/Core>\n'},
    {'agent/train/trainer.cpp': '#include <torch/torch.h>\n'},
    {'agent/train/torch_model.h': '#include <ATen/core/Tensor.h>\n'},
    {'compression/codec.cpp': '#include <cuda_runtime.h>\n'},
  ],
  function_length: [
    {'agent/a.cpp': 'namespace x {\nvoid f(int a) {\n' + LONG_BODY + '}\n}\n'},
    {'agent/a.cpp': 'template <class T>\nA<T>::A(B b)\n    : b_{b}, c_(1) {\n' + LONG_BODY + '}\n'},
    {'tests/a_test.cpp': 'TEST(Thing, Does) {\n' + LONG_BODY + '}\n'},
  ],
  line_length: [{'gossip/a.h': '// ' + 'x' * MAX_LINE + '\n'}, {'tools/a.py': '#' * (MAX_LINE + 1)}],
  pragma_once: [{'gossip/a.h': '// #pragma once\nint f();\n'}],
  one_definition: [
    {
      'gossip/a.h': 'namespace starling {\nenum class S : int { kA };\n}\n',
      'agent/b.h': 'namespace starling {\nenum class S { kB };\n}\n',
    },
  ],
  no_sleep: [{'tests/a_test.cpp': 'std::this_thread::sleep' + '_for(1s);\n'}, {'tests/a.py': 'time.sleep' + '(1)\n'}],
  banned_words: [{'agent/a.cpp': '// TO' + 'DO: later\n'}],
  emulated_kernels: [
    {**EMULATED, 'kernels/cuda/fold.cu': ''},
    {**EMULATED, 'kernels/cuda/cast.cu': '', 'kernels/cuda/pair.cu': ''},
    {**EMULATED, 'compression/cast.cu': ''},
  ],
  citations: [
    {'gossip/a.h': '// as sound' + 'ness C1 shows\n'},
    {'gossip/a.h': '// the seam of DES' + 'IGN\n'},
    {'agent/README.md': 'see plan' + '.md\n'},
    {'bootstrap/a.cpp': '// by the rule of § ' + '3\n'},
  ],
  json_by_hand: [{'agent/a.cpp': 'write("\\"steps\\":" + text);\n'}, {'gossip/a.h': 'f("{{\\"due\\":{}}}", due);\n'}],
  top_level: [{'utils/a.h': ''}, {'notes' + '.md': ''}],
  plain_words: [{'CHANGELOG.md': text} for text in LONG_TEXTS]
  + [
    {'CHANGELOG.md': 'An agent whose peer is gone waits.\n'},
    {'CHANGELOG.md': f'|a|\n|---|\n|{"x" * (words.MAX_CELL + 1)}|\n'},
    {'CHANGELOG.md': 'x' * (words.MAX_LINE + 1) + '\n'},
    {'agent/main.cpp': f'print("{LONG_TEXTS[0]}");\n'},
    {'agent/main.cpp': 'print("an agent "\n      "whom none knows");\n'},
    {'agent/main.h': '#pragma once\n// ' + LONG_TEXTS[1].replace('\n', '\n// ') + '\nint a();\n'},
    {'agent/main.h': '#pragma once\nint a();  // whoever asks\n'},
    {'CHANGELOG.md': 'a\n\n' * (words.MAX_MARKDOWN + 1)},
  ],
  readmes: [{'gossip/a.h': ''}, {'gossip/README.md': '\n' * (MAX_README_LINES + 1)}],
}
# And what none of them may report.
CLEAN = {
  **EMULATED,
  'kernels/cuda/cast.cu': '',
  'kernels/README.md': '',
  'tests/README.md': '',
  'CHANGELOG.md': 'a ' * (words.MAX_SENTENCE - 1)
  + 'end.\n\n```\nwho\n```\n- `who` waits:\n'
  + '- word word word.\n' * words.MAX_SENTENCE
  + '\n| '
  + 'word. ' * (words.MAX_CELL // 6)
  + '|\n',
  'agent/main.cpp': 'print("word "\n"word");\n' * words.MAX_SENTENCE + '// who\n',
  'agent/README.md': '- x\n' * MAX_README_LINES,
  'agent/train/torch_model.cpp': '#include <torch/torch.h>\n#include "agent/train/torch_model.h"\n'
  + '#include "kernels/cuda/pair.h"\n',
  'agent/b.cpp': 'namespace starling {\nnamespace {\nstruct A {};\n}\nstruct B::A {};\n}\n'
  + 'namespace other {\nstruct A {};\n}\n',
  'agent/a.cpp': 'namespace starling {\nstruct A;\n}\n'
  + 'struct A {\n'
  + '  int f() const { return 1; }\n  int b = g(1);\n' * 40
  + '};\n'
  + 'constexpr int kTable[] = {f(1),\n'
  + '1,\n' * 80
  + '};\n'
  + '/* { ( */ const char* s = "{ \\" (";\n'
  + 'void h() { for (;;) { k(\'{\'); } }\n' * 80,
}


def read_tree(root):
  """Path -> text of every file of the project that is text."""
  try:
    command = ['git', '-C', str(root), 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split('\0')
    paths = [root / name for name in names if name]
  except (OSError, subprocess.CalledProcessError):  # an unpacked archive, or no git
    paths = [
      path
      for entry in root.iterdir()
      if not entry.name.startswith(('build', '.'))
      for path in ([entry] if entry.is_file() else entry.rglob('*'))
      if '__pycache__' not in path.parts
    ]
  tree = {}
  for path in paths:
    if path.is_file():
      is_script = not path.suffix and path.parent.name in ('tools', '.ci')
      name = path.relative_to(root).as_posix()
      tree[name] = path.read_text(errors='replace') if path.suffix in TEXT or is_script else ''
  return tree


def main(root):
  tree = read_tree(root)
  cases = [('tree is read', [] if 'meson.build' in tree else [(str(root), 1, 'holds no meson.build')])]
  for rule, plants in RULES.items():
    name = rule.__name__.replace('_', ' ')
    missed = [
      (str(sorted(plant)[0]), 1, f'planted in a made-up tree, not found by {name}')
      for plant in plants
      if len(list(rule(plant))) != 1
    ]
    cases.append((f'{name}: finds what was planted', missed + list(rule(CLEAN))))
    cases.append((name, list(rule(tree))))
  print(f'1..{len(cases)}')
  for number, (name, findings) in enumerate(cases, 1):
    print(f'{"not ok" if findings else "ok"} {number} - {name}')
    for path, line, what in findings:
      print(f'{path}:{line}: {what}', file=sys.stderr)  # Meson keeps a TAP program's output to itself


if '--words' in sys.argv:
  print_words(read_tree(pathlib.Path(sys.argv[1]).resolve()), [folder.strip('/') for folder in sys.argv[3:]])
else:
  main(pathlib.Path(sys.argv[1]).resolve())
