"""chosen_tests.py DIR --room ROOM... | --names < LIST: what `meson test` in DIR must run, and what Ninja must build.

ROOM is a folder of the sources, such as gossip/net: its tests are the programs with a source below tests/ROOM. LIST is
what `meson test --list` prints. The first line printed names Ninja's targets, each further one a test.
"""

import json
import pathlib
import sys


def sources_of(target):
  for group in target['target_sources']:
    yield from group.get('sources', [])


def in_room(target, room, root):
  """Whether a source of the target lies below tests/ROOM."""
  below = f'{root}/tests/{room}/'
  return any(source.startswith(below) for source in sources_of(target))


def names_in(listing):
  """`unit - starling:gossip/peer` -> gossip/peer."""
  return [line.partition(' - ')[2].partition(':')[2] for line in listing.splitlines() if ' - ' in line]


def targets_of(tests, targets, folder):
  """Ninja's names of all that these tests run."""
  wanted = {name for test in tests for name in test['depends']}
  files = [file for target in targets if target['id'] in wanted for file in target['filename'][:1]]
  return sorted(str(pathlib.PurePath(file).relative_to(folder)) for file in files)


def tests_in(room, tests, targets, root):
  programs = {target['id'] for target in targets if in_room(target, room, root)}
  return [test for test in tests if programs.intersection(test['depends']) and 'starling:gpu' not in test['suite']]


def load(folder, name):
  return json.loads((folder / f'meson-info/intro-{name}.json').read_text())


def main(folder, option, *rooms):
  folder = pathlib.Path(folder).resolve()
  tests, targets = load(folder, 'tests'), load(folder, 'targets')
  if option == '--room':
    root = json.loads((folder / 'meson-info/meson-info.json').read_text())['directories']['source']
    chosen = [test for room in rooms for test in tests_in(room.strip('/'), tests, targets, root)]
  else:
    named = set(names_in(sys.stdin.read()))
    chosen = [test for test in tests if test['name'] in named]
  if not chosen:
    what = f'no test program has a source below tests/{rooms[0]}' if rooms else 'no test has this name'
    sys.exit(f'{what}: see tools/test --list')
  print(*targets_of(chosen, targets, folder))
  print(*(test['name'] for test in chosen), sep='\n')


if __name__ == '__main__':
  main(*sys.argv[1:])
