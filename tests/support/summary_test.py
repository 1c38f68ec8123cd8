"""The closing line of tools/test, on made-up logs: each way in which a run can go wrong must be counted."""

import contextlib
import importlib.util
import io
import json
import pathlib
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location('summary', HERE / 'summary.py')
summary = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(summary)

GTEST = '<testsuite name="starling.gossip/foo.Foo"><testcase name="A"/><testcase name="B">{}</testcase></testsuite>'


class Summary(unittest.TestCase):
  def count(self, programs, suites, name='testlog'):
    with tempfile.TemporaryDirectory() as folder:
      logs = pathlib.Path(folder) / 'meson-logs'
      logs.mkdir()
      (logs / f'{name}.json').write_text(''.join(json.dumps(program) + '\n' for program in programs))
      (logs / f'{name}.junit.xml').write_text(f'<testsuites>{suites}</testsuites>')
      counts = summary.count_folder(pathlib.Path(folder))
    return counts['passed'], counts['failed'], counts['skipped']

  def printed(self, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as told:
      summary.main(list(arguments))
    return told.getvalue()

  def test_cases_are_counted_not_programs(self):
    log = [{'name': 'gossip/foo', 'is_fail': False}]
    self.assertEqual(self.count(log, GTEST.format('')), (2, 0, 0))
    self.assertEqual(self.count(log, GTEST.format('<skipped/>')), (1, 0, 1))
    self.assertEqual(self.count(log, GTEST.format(''), name='testlog-asan'), (2, 0, 0))

  def test_a_failed_case_explains_its_program(self):
    log = [{'name': 'gossip/foo', 'is_fail': True}]
    self.assertEqual(self.count(log, GTEST.format('<failure/>')), (1, 1, 0))

  def test_a_crash_without_a_failed_case_counts_once(self):
    log = [{'name': 'gossip/foo', 'is_fail': True}]
    self.assertEqual(self.count(log, GTEST.format('')), (2, 1, 0))
    self.assertEqual(self.count(log, ''), (0, 1, 0))

  def test_another_programs_failed_case_explains_nothing(self):
    log = [{'name': 'gossip/foo', 'is_fail': True}, {'name': 'gossip/fo', 'is_fail': True}]
    self.assertEqual(self.count(log, GTEST.format('<failure/>')), (1, 2, 0))

  def test_a_program_without_cases_is_one_case(self):
    log = [{'name': 'e2e/demo', 'is_fail': True}]
    case = '<testcase name="e2e/demo"><error/></testcase>'
    self.assertEqual(self.count(log, f'<testsuite name="starling">{case}</testsuite>'), (0, 1, 0))

  def test_the_reason_is_told(self):
    tap = 'ok 1 - a\nnot ok 2 - b\n# it broke\nok 3 - c\n'
    self.assertEqual(summary.reasons(tap), ['not ok 2 - b', '# it broke'])
    check = '[ RUN      ] A.B\nfoo_test.cpp:3: Failure\nValue of: x\n[  FAILED  ] A.B (0 ms)\n[  PASSED  ] 2 tests.\n'
    self.assertEqual(summary.reasons(check), ['foo_test.cpp:3: Failure', 'Value of: x'])
    self.assertEqual(summary.reasons('a line\nterminate called'), ['a line', 'terminate called'])

  def test_of_a_program_that_ran_again_the_second_run_counts(self):
    program = 'e2e+long - starling:e2e/foo'

    def log(folder, name, failure):
      path = folder / 'meson-logs' / name
      cases = f'<testcase name="1"/><testcase name="2">{failure}</testcase>'
      path.with_suffix('.json').write_text(json.dumps({'name': program, 'is_fail': bool(failure)}) + '\n')
      path.with_suffix('.junit.xml').write_text(f'<a><testsuite name="starling.{program}">{cases}</testsuite></a>')

    for second, result, counts in ('', 'passed', (2, 0)), ('<failure/>', 'failed', (1, 1)):
      with self.subTest(second=second), tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / 'meson-logs').mkdir()
        log(folder, 'testlog', '<failure/>')
        self.assertEqual(self.printed('--failed', made, 'e2e', 'python'), 'starling:e2e/foo\n')
        self.assertEqual(self.printed('--failed', made, 'unit'), '')
        self.assertTrue(self.printed(made).endswith('\n1 passed, 1 failed\n'))
        log(folder, 'testlog-again', second)
        told = self.printed(made)
        self.assertIn(f'failed beside other tests, {result} alone: {program}\n', told)
        self.assertTrue(told.endswith('\n{} passed, {} failed\n'.format(*counts)))

  def test_no_log_and_an_empty_or_torn_one_are_failures(self):
    with tempfile.TemporaryDirectory() as folder:
      self.assertEqual(summary.count_folder(pathlib.Path(folder))['failed'], 1)
    self.assertEqual(self.count([], ''), (0, 1, 0))
    self.assertEqual(self.count([], '<testsuite'), (0, 1, 0))


if __name__ == '__main__':
  unittest.main()
