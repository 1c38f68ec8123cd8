"""What the events of the log of updates say (tests/gossip/updates/update_events_test.cpp), as a row of a table."""

import re

LINE = re.compile(
  r'^(?P<name>[^:\n]+): \d+ replica-rounds, (?P<entries>[\d.]+) % with an entry, '
  r'(?P<short>\d+) short and (?P<long>\d+) long splits, .*?(?P<twice>\d+) counted twice at a cut\n'
  r' +faults: (?P<wrong>\d+) not conserved, (?P<again>\d+) counted twice, '
  r'(?P<patterns>\d+) of two bit patterns; (?P<differ>\d+) runs never equal, '
  r'(?P<full>\d+) never empty; the longest round took (?P<longest>[\d.]+) deadlines; '
  r'R is (?P<far>[\d.]+) from',
  re.M,
)
FAILED = re.compile(r'^\[  FAILED  \] (\w+\.\w+)$', re.M)
HEAD = [
  'left out',
  'rounds with an entry',
  'splits',
  'counted twice',
  'accumulators wrong',
  'two bit patterns',
  'runs never equal or never empty',
  'longest round, deadlines',
  'R from the mean',
  'noticed by',
]


def read(output):
  """The lines of events, by name."""
  return {found['name']: found.groupdict() for found in LINE.finditer(output)}


def row(what, output):
  lines = read(output)
  if not lines:
    return [what] + ['no figure'] * (len(HEAD) - 1)

  def all_of(*keys):
    return sum(int(line[key]) for line in lines.values() for key in keys)

  def most(key):
    return max(float(line[key]) for line in lines.values())

  entries = [float(line['entries']) for line in lines.values()]
  splits = ', '.join(f'{name} {int(line["short"]) + int(line["long"])}' for name, line in lines.items())
  failed = sorted(set(FAILED.findall(output)))
  return [
    what,
    f'{min(entries):.1f} to {max(entries):.1f} %',
    f'{all_of("short", "long")}: {splits}',
    str(all_of('twice', 'again')),
    str(all_of('wrong')),
    str(all_of('patterns')),
    str(all_of('differ', 'full')),
    f'{most("longest"):.1f}',
    f'{most("far"):.1f}',
    ', '.join(failed) or 'nobody',
  ]
