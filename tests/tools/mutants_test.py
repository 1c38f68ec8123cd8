"""The lists of tools/mutate: each is read as it is meant, and each mistake still stands in its file."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools/lib'))
sys.dont_write_bytecode = True
import log_figures  # noqa: E402
import mutant_page  # noqa: E402
import mutants  # noqa: E402


class Mutants(unittest.TestCase):
  def read(self, text):
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as file:
      file.write(text)
      file.flush()
      return mutants.read(file.name)

  def test_parts_of_a_line_and_lines_with_their_end(self):
    text = 'What this is.\n\n# A heading\n\none\na.cpp unit:A\n-old\n+new\n\ntwo\nb.cu twins:*\n-  f();\n-\n'
    self.assertEqual(
      self.read(text), [('one', 'a.cpp', 'old', 'new', 'unit:A'), ('two', 'b.cu', '  f();\n', '', 'twins:*')]
    )

  def test_what_is_no_mistake_is_refused(self):
    for lines in ('a.cpp unit\n', 'a.cpp unit\n+new\n', 'a.cpp unit\n-old\nnew\n', 'a.cpp\n-old\n'):
      with self.assertRaises(ValueError):
        self.read('Head.\n\none\n' + lines)

  def test_each_stands_in_its_file_once(self):
    for name in ('mutants.txt', 'cuda_mutants.txt'):
      listed = mutants.read(name)
      self.assertGreater(len(listed), 80)
      self.assertEqual(len({m.name for m in listed}), len(listed))
      for mutant in listed:
        with self.subTest(mutant.name):
          self.assertEqual((ROOT / mutant.path).read_text().count(mutant.old), 1, f'{mutant.path}: {mutant.old!r}')
          self.assertNotEqual(mutant.old, mutant.new)

  def test_the_page_follows_what_was_made(self):
    one, two = mutants.Mutant('one', 'agent/a.cpp', 'x', 'y', 'unit'), mutants.Mutant('two', 'a.cpp', 'z', '', 'unit')
    three = mutants.Mutant('three', 'tools/a.py', 'x', 'y', 'unit')
    empty = mutant_page.EMPTY + '\n## More\n'
    rows = [mutant_page.row_of(two, mutant_page.NOBODY), mutant_page.row_of(one, 'FAIL: a|b\n  c')]
    page = mutant_page.update(empty, [one, two, three], rows)
    self.assertIn(
      '**2 of 3 made, 1 of them in agent/ and 0 in tools/: 1 noticed by a test, 0 by the compiler, '
      '1 missed, 0 do not compile**.',
      page,
    )
    self.assertRegex(page, r'(?s)\| one \| unit \| FAIL: a/b c \| \w{6} \|\n\| two \|.*\n\n## More\n$')
    again = mutant_page.update(page, [one, two], [mutant_page.row_of(two, 'the compiler: static assertion failed')])
    self.assertIn(
      '**2 of 2 made, 1 of them in agent/ and 0 in tools/: 1 noticed by a test, 1 by the compiler, '
      '0 missed, 0 do not compile**.',
      again,
    )
    rewritten = mutant_page.update(page, [one._replace(new='w'), two._replace(suite='other')], [])
    self.assertEqual(
      rewritten,
      empty.replace(
        '0 of 0 made',
        '0 of 2 made, 0 of them in agent/ and 0 in tools/: '
        '0 noticed by a test, 0 by the compiler, 0 missed, 0 do not compile',
      ),
    )

  def test_each_rule_left_out_stands_in_its_file_once(self):
    texts = {}
    for edit in mutants.read('left_out.txt'):
      with self.subTest(edit.name):
        text = texts.setdefault((edit.name, edit.path), (ROOT / edit.path).read_text())
        self.assertEqual(text.count(edit.old), 1, f'{edit.path}: {edit.old!r}')
        texts[edit.name, edit.path] = text.replace(edit.old, edit.new)

  def test_figures_of_events(self):
    said = (
      '[ RUN      ] A.B\n'
      'cuts: 100 replica-rounds, 87.5 % with an entry, 2 short and 3 long splits, 4 owners stopped, 0 lies, '
      '1 counted twice at a cut\n'
      '  faults: 6 not conserved, 7 counted twice, 0 of two bit patterns; 1 runs never equal, 2 never empty; '
      'the longest round took 2.0 deadlines; R is 7.2 from the mean of all drifts\n'
      '[  FAILED  ] A.B (5 ms)\n[  FAILED  ] A.B\n'
    )
    more = said.replace('cuts', 'a liar').replace('87.5', '91.0')
    self.assertEqual(
      log_figures.row('a rule', said + more),
      ['a rule', '87.5 to 91.0 %', '10: cuts 5, a liar 5', '16', '12', '0', '6', '2.0', '7.2', 'A.B'],
    )
    self.assertEqual(log_figures.row('a rule', 'error: no')[1], 'no figure')


unittest.main()
