"""summary.py DIR...: one line, `N passed, N failed[, N skipped]`, over the logs that `meson test` left in each DIR;
before it the name of each failed one, with what it printed of the failure.

Counted by test case. A program that failed without a failing case of its own (it crashed, hung, or leaked at its
end) counts as one failed; so does a DIR without a log: nothing ran there. Exits 1 when anything failed.
A log named `again...` is of a second try: it counts instead of the first, whose failure is printed all the same.

summary.py --failed DIR: the names of the programs that failed, as `meson test` takes them.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as xml

LINES_OF_ONE, LINES_OF_PROGRAM, LINE_WIDTH = 12, 40, 300


def owner(suite, case):
  """The test program a case belongs to, as the log names it: `project.program[.suite]` or `project` and the case."""
  _, _, rest = suite.partition('.')
  return rest or case


def outcome(case):
  if case.find('failure') is not None or case.find('error') is not None:
    return 'failed'
  if case.find('skipped') is not None or case.get('status') == 'notrun':
    return 'skipped'
  return 'passed'


def reasons(printed):
  """The lines of a program's output that tell of failures: of TAP what follows `not ok`, of GoogleTest each check."""
  lines = printed.splitlines()
  told = []
  telling = 0
  for line in lines:
    if line.startswith(('ok ', '[')):
      telling = 0
    elif line.startswith('not ok') or line.endswith(': Failure'):
      telling = LINES_OF_ONE
    if telling > 0:
      told.append(line)
      telling -= 1
  return told or lines[-LINES_OF_ONE:]


def belongs(case, program):
  return case == program or case.startswith(program + '.')


def count_log(text, junit, tried_again=()):
  """Counts of one log: the lines of testlog.json, and the parsed testlog.junit.xml, without programs tried again."""
  counts = {'passed': 0, 'failed': 0, 'skipped': 0}
  failing = []
  for suite in junit.iter('testsuite'):
    for case in suite.findall('testcase'):
      of = owner(suite.get('name', ''), case.get('name', ''))
      if any(belongs(of, program) for program in tried_again):
        continue
      result = outcome(case)
      counts[result] += 1
      if result == 'failed':
        failing.append(of)
        print(f"failed: {suite.get('name', '')} {case.get('name', '')}")
  for line in text.splitlines():
    program = json.loads(line)
    name = program['name']
    if not program['is_fail']:
      continue
    if name in tried_again:
      print(f'failed, and was tried again: {name}')
    elif not any(belongs(f, name) for f in failing):
      counts['failed'] += 1
      print(f'failed: {name}')
    for line in reasons(program.get('stdout', ''))[:LINES_OF_PROGRAM]:
      print(f'  {line[:LINE_WIDTH]}')
  return counts


def logs_of(folder, kind):
  return sorted((folder / 'meson-logs').glob(f'{kind}*.json'))


def programs(logs):
  return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def failed_names(folder):
  return [one['name'].rpartition(':')[2] for one in programs(logs_of(folder, 'testlog')) if one['is_fail']]


def count_folder(folder):
  total = {'passed': 0, 'failed': 0, 'skipped': 0}
  logs, second = logs_of(folder, 'testlog'), logs_of(folder, 'again')
  for log in [*logs, *second]:
    try:
      tried_again = {one['name'] for one in programs(second)} if log in logs else ()
      counts = count_log(log.read_text(), xml.parse(log.with_suffix('.junit.xml')), tried_again)
    except (OSError, ValueError, KeyError, xml.ParseError) as error:
      print(f'{log}: {error}')
      counts = {'failed': 1}
    for result, count in counts.items():
      total[result] += count
  if not logs or not any(total.values()):
    total['failed'] += 1
  return total


def main(folders):
  if folders[:1] == ['--failed']:
    print('\n'.join(failed_names(pathlib.Path(folders[1]))))
    return 0
  totals = [count_folder(pathlib.Path(folder)) for folder in folders] or [{'passed': 0, 'failed': 1, 'skipped': 0}]
  passed, failed, skipped = (sum(t[result] for t in totals) for result in ('passed', 'failed', 'skipped'))
  print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
