"""tests/defects.md names tests and attacks: each of them exists, and no attack is missing there."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GTEST = re.compile(r'^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\((\w+),\s*(\w+)\)', re.M)


def tests_here():
  found = set()
  for path in (ROOT / 'tests').rglob('*'):
    if path.suffix in ('.cpp', '.h'):
      found |= {'.'.join(names) for names in GTEST.findall(path.read_text())}
    elif path.suffix == '.py':
      found |= {f'{path.stem}.{name}' for name in re.findall(r'^  def (test_\w+)', path.read_text(), re.M)}
  return found


class Defects(unittest.TestCase):
  def setUp(self):
    lines = (ROOT / 'tests/defects.md').read_text().splitlines()
    rows = [line[1:-1].split('|') for line in lines if re.match(r'\|[^-]', line) and 'noticed by' not in line]
    self.rows = [(row[0].strip(), *(re.findall(r'`([^`]*)`', cell) for cell in row[1:])) for row in rows]

  def test_each_has_a_test_that_exists(self):
    here = tests_here()
    self.assertGreater(len(self.rows), 50)
    for what, tests, _ in self.rows:
      with self.subTest(what):
        self.assertTrue(tests)
        self.assertEqual(set(tests) - here, set())

  def test_each_attack_is_named_and_exists(self):
    listed = set(re.findall(r'^\s+\{"(\w+)", "', (ROOT / 'tools/attack/attacks.cpp').read_text(), re.M))
    self.assertGreater(len(listed), 10)
    self.assertEqual({attack for *_, attacks in self.rows for attack in attacks}, listed)


unittest.main()
