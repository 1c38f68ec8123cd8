"""What tools/test builds and runs, chosen from made-up tables of Meson."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools/lib'))
sys.dont_write_bytecode = True
import chosen_tests  # noqa: E402


def target(name, *sources):
  files = [f'/b/{name}']
  return {'id': f'id@{name}', 'filename': files, 'target_sources': [{'sources': list(sources)}, {'linker': ['g++']}]}


TARGETS = [
  target('tests/pairs_test', '/r/tests/gossip/pairs/a_test.cpp', '/r/tests/gossip/pairs/b_test.cpp'),
  target('tests/pairs_more_test', '/r/tests/gossip/pairs_more/a_test.cpp'),
  target('agent/starling', '/r/agent/main.cpp'),
]
TESTS = [
  {'name': 'gossip/pairs', 'suite': ['starling:unit'], 'depends': ['id@tests/pairs_test']},
  {'name': 'gossip/pairs on GPU', 'suite': ['starling:gpu'], 'depends': ['id@tests/pairs_test']},
  {'name': 'gossip/pairs_more', 'suite': ['starling:unit'], 'depends': ['id@tests/pairs_more_test']},
  {'name': 'e2e/swarm', 'suite': ['starling:e2e'], 'depends': ['id@agent/starling']},
  {'name': 'tidy', 'suite': ['starling:style'], 'depends': []},
]


class ChosenTests(unittest.TestCase):
  def test_a_room_has_the_programs_with_a_source_there(self):
    chosen = chosen_tests.tests_in('gossip/pairs', TESTS, TARGETS, '/r')
    self.assertEqual([test['name'] for test in chosen], ['gossip/pairs'])
    self.assertEqual(chosen_tests.tests_in('gossip/none', TESTS, TARGETS, '/r'), [])
    self.assertEqual(len(chosen_tests.tests_in('gossip', TESTS, TARGETS, '/r')), 2)

  def test_what_a_test_runs_is_built_and_nothing_else(self):
    self.assertEqual(
      chosen_tests.targets_of(TESTS[:1] + TESTS[3:], TARGETS, '/b'), ['agent/starling', 'tests/pairs_test']
    )
    self.assertEqual(chosen_tests.targets_of(TESTS[4:], TARGETS, '/b'), [])

  def test_names_as_meson_lists_them(self):
    listing = 'unit - starling:gossip/peer\nsim+learning - starling:sim/pair liars\nninja: no work to do.\n'
    self.assertEqual(chosen_tests.names_in(listing), ['gossip/peer', 'sim/pair liars'])


if __name__ == '__main__':
  unittest.main()
