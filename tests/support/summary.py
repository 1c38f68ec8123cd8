"""summary.py DIR...: one line, `N passed, N failed[, N skipped]`, over the logs that `meson test` left in each DIR;
before it the name of each failed one, with what it printed of the failure.
summary.py --failed DIR SUITE...: the programs of these suites that failed, a line each, as `meson test` takes them.

Counted by test case. A program that failed without a failing case of its own (it crashed, hung, or leaked at its
end) counts as one failed; so does a DIR without a log: nothing ran there. Of a program that ran again, in the log
testlog-again, the second run counts; the first one's failure is printed all the same. Exits 1 when anything failed.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as xml

LINES_OF_ONE, LINES_OF_PROGRAM, LINE_WIDTH = 60, 120, 300


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


def count_log(text, junit, again=None):
  """Counts of one log: the lines of testlog.json, and the parsed testlog.junit.xml, but not of the programs `again`."""
  again = again or {}
  counts = {'passed': 0, 'failed': 0, 'skipped': 0}
  failing = []
  for suite in junit.iter('testsuite'):
    for case in suite.findall('testcase'):
      if any(belongs(owner(suite.get('name', ''), case.get('name', '')), name) for name in again):
        continue
      result = outcome(case)
      counts[result] += 1
      if result == 'failed':
        failing.append(owner(suite.get('name', ''), case.get('name', '')))
        print(f"failed: {suite.get('name', '')} {case.get('name', '')}")
  for line in text.splitlines():
    program = json.loads(line)
    name = program['name']
    if not program['is_fail']:
      continue
    if name in again:
      print(f"failed beside other tests, {'failed' if again[name] else 'passed'} alone: {name}")
    elif not any(belongs(case, name) for case in failing):
      counts['failed'] += 1
      print(f'failed: {name}')
    for line in reasons(program.get('stdout', ''))[:LINES_OF_PROGRAM]:
      print(f'  {line[:LINE_WIDTH]}')
  return counts


def programs(log):
  """The programs of a log, each with whether it failed."""
  return {p['name']: p['is_fail'] for p in map(json.loads, log.read_text().splitlines())} if log.exists() else {}


def count_folder(folder):
  total = {'passed': 0, 'failed': 0, 'skipped': 0}
  logs = sorted((folder / 'meson-logs').glob('testlog*.json'))
  second = folder / 'meson-logs/testlog-again.json'
  for log in logs:
    try:
      again = programs(second) if log != second else None
      counts = count_log(log.read_text(), xml.parse(log.with_suffix('.junit.xml')), again)
    except (OSError, ValueError, KeyError, xml.ParseError) as error:
      print(f'{log}: {error}')
      counts = {'failed': 1}
    for result, count in counts.items():
      total[result] += count
  if not logs or not any(total.values()):
    total['failed'] += 1
  return total


def print_failed(log, suites):
  for name, failed in programs(log).items():
    own_suites, _, program = name.rpartition(' - ')
    if failed and suites.intersection(own_suites.split('+')):
      print(program)
  return 0


def main(folders):
  if folders[:1] == ['--failed']:
    return print_failed(pathlib.Path(folders[1]) / 'meson-logs/testlog.json', set(folders[2:]))
  totals = [count_folder(pathlib.Path(folder)) for folder in folders] or [{'passed': 0, 'failed': 1, 'skipped': 0}]
  passed, failed, skipped = (sum(t[result] for t in totals) for result in ('passed', 'failed', 'skipped'))
  print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
