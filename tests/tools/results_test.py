"""Results as data: what is read from a run's tables, how runs are merged, verdicts; then the files and pages here."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / 'tools/experiments'
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import results  # noqa: E402

WORDS_MAX, EXPECTED_WORDS_MAX, EXPECTED_LINES_MAX, PROSE_MAX = 9000, 350, 60, 3000
TABLE = """
Some words.

| way | seeds | loss | ratio | time, ms | rate | met |
|---|---|---|---|---|---|---|
| a | 3 | +0.6 % (± 0.4) | .56 ± .11 | 1,684 | 2.1 (2.0 to 2.3) | yes |
| b | 3 | 0.3 | | 4.8, 5.1 s, not in 1 of 5 runs | -0.3..4.6 | no |
"""


def cells(value=1.0, **fields):
  found = {'table': 't', 'setting': {'way': 'a'}, 'what': 'loss', 'value': value, 'unit': '%', 'run': 'old'}
  return [{**found, **fields}]


class Figures(unittest.TestCase):
  def test_are_read_from_tables(self):
    found = {(c['setting']['way'], c['what']): c for c in results.cells_of(TABLE, [('t', ['way'])], 'r')}
    loss = {'table': 't', 'setting': {'way': 'a'}, 'what': 'loss', 'value': 0.6, 'interval': 0.4, 'unit': '%', 'n': 3}
    self.assertEqual(found['a', 'loss'], {**loss, 'run': 'r'})
    self.assertEqual((found['a', 'ratio']['value'], found['a', 'ratio']['interval']), (0.56, 0.11))
    self.assertEqual((found['a', 'time, ms']['value'], found['a', 'time, ms']['unit']), (1684, 'ms'))
    self.assertEqual((found['a', 'rate']['value'], found['a', 'rate']['range']), (2.1, [2.0, 2.3]))
    self.assertEqual((found['b', 'rate']['value'], found['b', 'rate']['range']), (None, [-0.3, 4.6]))
    self.assertEqual(found['b', 'time, ms']['note'], '4.8, 5.1 s, not in 1 of 5 runs')
    self.assertEqual({what for _, what in found}, {'loss', 'ratio', 'time, ms', 'rate'})

  def test_need_as_many_tables_as_are_named_and_their_axes(self):
    with self.assertRaises(SystemExit):
      results.cells_of(TABLE, [('t', ['way']), ('u', ['way'])], 'r')
    with self.assertRaises(SystemExit):
      results.cells_of(TABLE, [('t', ['network'])], 'r')
    self.assertEqual(results.cells_of(TABLE, [('t', None)], 'r'), [])


class Verdicts(unittest.TestCase):
  def test_follow_from_value_interval_and_goal(self):
    for goal, value, interval, said in [
      ('<= 1.1', 0.9, 0.1, 'met'),
      ('<= 1.1', 0.9, 0.3, 'not shown'),
      ('<= 1.1', 1.0, 0.1, 'not shown'),
      ('<= 1.1', 1.2, 0.3, 'missed'),
      ('>= 95', 100, 2.5, 'met'),
      ('>= 95', 94, 0, 'missed'),
      ('within 2', -0.8, 0.6, 'met'),
      ('within 2', -1.3, 0.8, 'not shown'),
      ('within 2', -2.1, 0.1, 'missed'),
      ('<= 1', None, 0, 'missed'),
    ]:
      self.assertEqual(results.verdict({'goal': goal, 'value': value, 'interval': interval}), said, (goal, value))
    self.assertEqual(results.verdict({'value': 1}), 'no goal')
    self.assertEqual(results.verdict({'goal': '<= 1', 'value': 0.5, 'half_range': 0.3}), 'not shown')
    for low, high, said in [(0.6, 0.8, 'met'), (0.6, 1.2, 'not shown'), (0.9, 1.4, 'missed')]:
      self.assertEqual(results.verdict({'goal': '<= 1', 'value': None, 'range': [low, high]}), said)
    with self.assertRaises(ValueError):
      results.verdict({'goal': 'fast', 'value': 1})


class Merging(unittest.TestCase):
  def test_takes_figures_from_the_run_and_keeps_words_by_hand(self):
    old = cells(goal='<= 2', label='loss', ours='a', stale=True, interval=0.1) + cells(what='time')
    first, second, third = results.merged(old, cells(3.0, unit='', run='new') + cells(what='more', run='new'))
    self.assertEqual((first['value'], first['run'], first['unit'], first['goal']), (3.0, 'new', '%', '<= 2'))
    self.assertEqual(first['verdict'], 'missed')
    self.assertFalse({'stale', 'interval'} & set(first))
    self.assertEqual((second['what'], second['run']), ('time', 'old'))
    self.assertEqual((third['what'], third['verdict']), ('more', 'no goal'))

  def test_a_value_stands_within_its_range(self):
    ratio = {'unit': 'x', 'range': [1.72, 1.77]}
    self.assertEqual(results.said({**ratio, 'value': 1.7}), '1.7x (1.7..1.8)')
    self.assertEqual(results.said({**ratio, 'value': 1.74}), '1.74x (1.72..1.77)')
    self.assertEqual(results.said({'unit': 's', 'value': 2, 'range': [1.25, 3]}), '2 s (1.25..3.00)')

  def test_faults_are_found(self):
    run = {'program': 'a', 'date': 'b', 'machine': 'c'}
    good = cells(verdict='no goal')
    self.assertEqual(results.faults({'runs': {'old': run}, 'cells': good}), [])
    for bad in (
      {'runs': {'old': {'program': 'a'}}, 'cells': good},
      {'runs': {}, 'cells': good},
      {'runs': {'old': run}, 'cells': good * 2},
      {'runs': {'old': run}, 'cells': cells(verdict='met')},
      {'runs': {'old': run}, 'cells': cells(verdict='no goal', color='red')},
      {'runs': {'old': run}, 'cells': cells(None, verdict='no goal')},
      {'runs': {'old': run}, 'cells': cells(verdict='no goal', page=True)},
    ):
      self.assertEqual(len(results.faults(bad)), 1, bad)


class Here(unittest.TestCase):
  def test_files_keep_to_the_schema(self):
    self.assertEqual({p.parent.name for p in HERE.glob('*/experiment.py')}, set(results.names()[:-3]))
    for name in results.names():
      self.assertEqual(results.faults(results.read(name)), [], name)

  def test_the_page_is_what_the_data_give(self):
    self.assertEqual(results.PAGE.read_text(), results.page(), 'run tools/experiments/run --pages')

  def test_the_readme_shows_the_figures_of_the_data(self):
    block = results.BLOCK.search((ROOT / 'README.md').read_text())
    self.assertIsNotNone(block, 'README.md lacks <!-- figures --> and <!-- /figures -->')
    self.assertEqual(block[0], results.block(), 'run tools/experiments/run --pages')
    self.assertEqual(block[0].count('\n'), 4 + 5, 'five figures stand there')

  def test_pages_are_short(self):
    pages = [*HERE.glob('*.md'), *HERE.glob('*/*.md')]
    self.assertLessEqual(sum(len(page.read_text().split()) for page in pages), WORDS_MAX)
    for page in HERE.glob('*/expected.md'):
      text = page.read_text()
      self.assertLessEqual(len(text.split()), EXPECTED_WORDS_MAX, page)
      self.assertLessEqual(len(text.splitlines()), EXPECTED_LINES_MAX, page)
    lines = results.page().splitlines()
    prose = [line for line in lines if not line.startswith('|')]
    self.assertLessEqual(sum(len(line.split()) for line in prose), PROSE_MAX)
    for line in lines:
      if line.startswith('|'):
        self.assertLessEqual(max(map(len, line.split('|'))), results.CELL_MAX, line)


if __name__ == '__main__':
  unittest.main()
