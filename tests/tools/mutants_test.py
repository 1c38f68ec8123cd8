"""The lists of tools/mutate: each is read as it is meant, and each mistake still stands in its file."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools/lib'))
sys.dont_write_bytecode = True
import mutants   # noqa: E402


class Mutants(unittest.TestCase):
  def read(self, text):
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as file:
      file.write(text)
      file.flush()
      return mutants.read(file.name)

  def test_parts_of_a_line_and_lines_with_their_end(self):
    text = 'What this is.\n\n# A heading\n\none\na.cpp unit:A\n-old\n+new\n\ntwo\nb.cu twins:*\n-  f();\n-\n'
    self.assertEqual(self.read(text), [('one', 'a.cpp', 'old', 'new', 'unit:A'),
                                       ('two', 'b.cu', '  f();\n', '', 'twins:*')])

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


unittest.main()
