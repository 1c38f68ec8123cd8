"""The page that tools/mutate writes to build/: what it found, a row a mistake.

The last column tells which mistake a row is about: a few digits of a hash of its file and its two sides. A mistake that
was rewritten since, or that left the list, has no row any more.
"""

import hashlib
import itertools
import re
from typing import NamedTuple

NOBODY = '**nobody**'
HEAD = '| mistake | suite | noticed by | of |\n|---|---|---|---|\n'
EMPTY = f'# What tools/mutate found\n\n**0 of 0 made**.\n\n{HEAD}'
COUNTS = re.compile(r'\*\*\d+ of \d+ made.*?\*\*')
COMPILER = 'the compiler'
UNCOMPILED = 'does not compile'


class Row(NamedTuple):
  name: str
  suite: str
  verdict: str
  key: str


def key_of(mutant):
  return hashlib.sha256('\0'.join((mutant.path, mutant.old, mutant.new)).encode()).hexdigest()[:6]


def row_of(mutant, verdict):
  return Row(mutant.name, mutant.suite, re.sub(r'\s+', ' ', verdict.replace('|', '/'))[:120].strip(), key_of(mutant))


def parts_of(page):
  """What stands before the rows, the rows by name, and what stands behind them."""
  before, table = page.split(HEAD)
  lines = table.splitlines(keepends=True)
  count = sum(1 for _ in itertools.takewhile(lambda line: line.startswith('| '), lines))
  rows = [Row(*line.strip('| \n').split(' | ')) for line in lines[:count]]
  return before, {row.name: row for row in rows}, ''.join(lines[count:])


def counts_of(rows, known):
  """The sentence that sums the rows up."""
  verdicts = [row.verdict for row in rows.values()]
  made_in = {
    folder: sum(mutant.name in rows and mutant.path.startswith(folder) for mutant in known)
    for folder in ('agent/', 'tools/')
  }
  missed = verdicts.count(NOBODY)
  compiler = sum(verdict.startswith(COMPILER) for verdict in verdicts)
  not_compiled = sum(verdict.startswith(UNCOMPILED) for verdict in verdicts)
  tests = len(verdicts) - missed - compiler - not_compiled
  return (
    f'**{len(verdicts)} of {len(known)} made, {made_in["agent/"]} of them in agent/ and {made_in["tools/"]} in '
    f'tools/: {tests} noticed by a test, {compiler} by the compiler, {missed} missed, {not_compiled} do not '
    'compile**'
  )


def update(page, known, found):
  """The page with these rows in the place of those of the same name, and without those of no mistake of the list."""
  before, rows, behind = parts_of(page)
  rows.update((row.name, row) for row in found)
  keys = {mutant.name: (mutant.suite, key_of(mutant)) for mutant in known}
  rows = {name: row for name, row in sorted(rows.items()) if keys.get(name) == (row.suite, row.key)}
  before = COUNTS.sub(counts_of(rows, known), before, count=1)
  lines = ''.join(f'| {" | ".join(row)} |\n' for row in rows.values())
  return before + HEAD + lines + behind
