"""Every warning and error of the program holds its remedy, or is a row of TROUBLES.md; and each row is of a message."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ('kernels', 'compression', 'gossip', 'bootstrap', 'agent')
CALL = re.compile(
  r'spdlog::(?:warn|error|critical)\(|throw (?:std::)?\w*(?:Error|_error|invalid_argument)\(|'
  r'\b(?:fail|refuse_file)\((?=[^;]*")|return fmt::format\(|say_?\('
)
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
VERBS = (
  'add|allow|change|check|choose|compare|copy|count|cut|delete|divide|end|expected|fetch|find|free|give|install|join|'
  'keep|kill|leave|let|look|lower|make|mount|move|name|plan|put|raise|remove|restore|run|save|say|see|set|show|start|'
  'stop|take|train|try|undo|unpack|update|upgrade|use|wait|write'
)
# A thing to do begins a clause; or the rule that was broken is named, or what there is to choose from.
REMEDY = re.compile(
  rf'(?:^|[;.:(,?]\s*|\b(?:or|else|and|so|else) )(?:{VERBS})\b|--[a-z]|did you mean|it can be|there are|'
  r'\b(must|needs?|at most|at least|more than|only|fewer|has labels|is missing|its keys are|twice|another one|'
  r'it takes|it is to hold|\d to|is \[|a network is|one file is one)(?:\b|(?<=\[))',
  re.I,
)
# Or the message of an error ends with one that is made elsewhere. A warning tells of such an error, and what to do then
# depends on where it came.
MADE_ELSEWHERE = re.compile(r'[:;] ?(?:\{\}|\\n)?$')


def arguments(text, begin):
  """From the parenthesis at `begin` to the one that closes it."""
  depth, inside = 0, False
  for at in range(begin, len(text)):
    if inside:
      inside = not (text[at] == '"' and text[at - 1] != '\\')
    elif text[at] == '"' and text[at - 1] != "'":
      inside = True
    elif text[at] == '(':
      depth += 1
    elif text[at] == ')':
      depth -= 1
      if depth == 0:
        return text[begin : at + 1]
  return text[begin:]


def joined(code):
  """The literals of a statement: neighbours are one, arguments a clause each, and `…` is what is put between."""
  words, end = '', 0
  for literal in LITERAL.finditer(code):
    between = re.sub(r'//[^\n]*', '', code[end : literal.start()]).strip()
    words += ('' if not between or not words else '; ' if ',' in between else '…') + literal[1]
    end = literal.end()
  return words


def has_remedy(words, warns):
  return bool(REMEDY.search(words) or (not warns and MADE_ELSEWHERE.search(words)))


def messages(text):
  """(line, what it says, whether it is logged) of every statement that warns or refuses with words of its own."""
  for call in CALL.finditer(text):
    if 'return fmt' in call[0] and 'struct Warning' not in text:
      continue
    words = joined(arguments(text, call.end() - 1))
    if re.search(r'[a-z]{2}', words) and not re.fullmatch(r' \(.*\)', words):  # an addition to another one
      yield text.count('\n', 0, call.start()) + 1, words, call[0].startswith('spdlog')


class Troubles(unittest.TestCase):
  def setUp(self):
    self.page = (ROOT / 'TROUBLES.md').read_text()
    self.keys = re.findall(r'^\|`([^`]+)`\|', self.page, re.M)
    self.messages = [
      (f'{path.relative_to(ROOT)}:{line}', words, warns)
      for folder in FOLDERS
      for path in sorted((ROOT / folder).rglob('*'))
      if path.suffix in ('.cpp', '.h')
      for line, words, warns in messages(path.read_text())
    ]

  def test_what_is_planted_is_found(self):
    found = [
      words
      for _, words, _ in messages('spdlog::warn("{} is " // x\n "gone", f("("));\nthrow std::runtime_error("no");')
    ]
    self.assertEqual(found, ['{} is gone; (', 'no'])
    self.assertFalse(has_remedy('the set of {} is gone', False))
    self.assertTrue(has_remedy('{} is full; make room', True))
    self.assertTrue(has_remedy('{} is not read: {}', False))
    self.assertFalse(has_remedy('{} is not read: {}', True))

  def test_each_message_has_its_remedy_or_a_row(self):
    self.assertGreater(len(self.messages), 200)
    for place, words, warns in self.messages:
      with self.subTest(place):
        known = has_remedy(words, warns) or any(key in words for key in self.keys)
        self.assertTrue(known, f'no remedy in "{words}", and no row of it in TROUBLES.md')

  def test_each_row_is_of_a_message_without_one(self):
    self.assertEqual(len(self.keys), len(set(self.keys)))
    for key in self.keys:
      with self.subTest(key):
        self.assertTrue([words for _, words, _ in self.messages if key in words], 'no message has these words')

  def test_the_readme_leads_there(self):
    self.assertIn('(TROUBLES.md)', (ROOT / 'README.md').read_text())


if __name__ == '__main__':
  unittest.main()
