"""Reads a list of mistakes, a text of paragraphs apart by empty lines:

    NAME
    FILE SUITE           the suite is PROGRAM or PROGRAM:TEST
    -what stands there   its lines, or a part of one; it must be in the file once
    +what it becomes     nothing where there is no such line

A last line that is `-` alone stands for the end of the line before it. Lines that begin with # are headings; what comes
before the first paragraph of this form says what the list is. A line of code that was rewritten needs its mistake anew.
"""

import pathlib
from typing import NamedTuple


class Mutant(NamedTuple):
  name: str
  path: str
  old: str
  new: str
  suite: str


def read(name):
  """The mistakes of the list with this name beside this file."""
  text = (pathlib.Path(__file__).parent / name).read_text()
  found = []
  for paragraph in text.split('\n\n')[1:]:
    what, *lines = paragraph.strip('\n').split('\n')
    if what.startswith('#'):
      continue
    path, suite = lines.pop(0).split()
    sides = {sign: '\n'.join(line[1:] for line in lines if line[:1] == sign) for sign in '-+'}
    if not sides['-'] or any(line[:1] not in sides for line in lines):
      raise ValueError(f'{name}: `{what}` has a line that begins with neither - nor +, or nothing to replace')
    found.append(Mutant(what, path, sides['-'], sides['+'], suite))
  return found
