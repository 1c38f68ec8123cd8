"""The order of expectation and result, in made-up histories; then in this repository's own."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools/experiments'))
sys.dont_write_bytecode = True
import order  # noqa: E402

PAGE = '# new: measured\n\n2 cores; program 0123456789.\n\n| loss |\n|---|\n| {} |\n\n## Reading\n\n{}\n'


def result(value, program='0123456789', label='', **about):
  cell = {'table': 'loss', 'setting': {}, 'what': 'loss', 'value': value, 'run': 'a', 'label': label}
  run = {'program': program, 'date': '2026-01-01', 'machine': '2 cores', **about}
  return json.dumps({'question': 'new', 'runs': {'a': run}, 'cells': [cell]})


class Histories(unittest.TestCase):
  def setUp(self):
    scratch = tempfile.TemporaryDirectory()
    self.addCleanup(scratch.cleanup)
    self.root = pathlib.Path(scratch.name)
    self.git('init', '-q')

  def git(self, *arguments):
    names = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'commit.gpgsign=false']
    command = ['git', '-C', str(self.root), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

  def commit(self, **files):
    for name, text in files.items():
      path = self.root / 'tools/experiments/new' / {'result': 'result.json', 'page': order.PAGE}.get(name, f'{name}.md')
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text(text)
    self.git('add', '.')
    self.git('commit', '-qm', 'change')
    return self.git('rev-parse', 'HEAD')

  def objection(self, name='new'):
    return ' '.join(order.objections(self.root, name))

  def test_the_right_order(self):
    self.commit(expected='1')
    self.assertEqual(self.objection(), '')
    self.commit(result=result(1))
    self.assertEqual(self.objection(), '')

  def test_one_commit_for_both(self):
    self.commit(expected='1', result=result(1))
    self.assertIn('commit of its own', self.objection())

  def test_an_expectation_that_follows_the_result(self):
    self.commit(expected='1')
    self.commit(result=result(2))
    self.commit(expected='2')
    self.assertIn('did not come before', self.objection())
    self.commit(result=result(2, label='as expected'))  # a later word does not mend it
    self.assertIn('did not come before', self.objection())
    self.commit(result=result(3))  # another run does
    self.assertEqual(self.objection(), '')

  def test_an_expectation_changed_and_not_committed(self):
    self.commit(expected='1')
    (self.root / 'tools/experiments/new/expected.md').write_text('2')
    self.assertIn('before the run', ' '.join(order.expectation_objections(self.root, 'new')))
    self.assertIn('before the run', ' '.join(order.expectation_objections(self.root, 'other')))

  def test_a_result_without_its_program(self):
    self.commit(expected='1')
    self.commit(result=result(1, program=''))
    self.assertIn('does not name', self.objection())

  def test_a_copied_result_is_judged_by_the_page_that_it_was_copied_from(self):
    self.commit(expected='long')
    page = self.commit(page=PAGE.format(1, ''))
    self.commit(expected='short')
    self.commit(result=result(1, copied=page))
    self.assertEqual(self.objection(), '')

  def test_a_copied_result_whose_expectation_followed_its_page(self):
    self.commit(expected='1')
    self.commit(page=PAGE.format(1, ''))
    late = self.commit(expected='2')
    self.commit(result=result(1, copied=late))
    self.assertIn('did not come before', self.objection())

  def test_the_program_is_named_with_its_changes(self):
    self.commit(expected='1')
    clean = order.program_commit(self.root)
    self.assertRegex(clean, '^[0-9a-f]{10}$')
    (self.root / 'tools/experiments/new/expected.md').write_text('2')
    self.assertEqual(order.program_commit(self.root), clean + ' with uncommitted changes')


class Here(unittest.TestCase):
  def test_each_expectation_came_before_its_result(self):
    a_copy = order.git(ROOT, 'rev-parse', '--show-prefix').strip()  # tools/mutate's: it has no history of its own
    if a_copy or order.git(ROOT, 'rev-parse', '--is-shallow-repository').strip() != 'false':
      self.skipTest('no whole history here')
    for path in sorted((ROOT / 'tools/experiments').glob('*/experiment.py')):
      self.assertEqual(order.objections(ROOT, path.parent.name), [])


if __name__ == '__main__':
  unittest.main()
