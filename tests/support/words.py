"""The writing rule of CONTRIBUTING as far as a program can judge it: finds long sentences, lines and table cells, and
pronouns that stand for a machine, in Markdown, in texts that the program prints, and in comments of its headers.
"""

import re

MAX_SENTENCE = 35  # words
MAX_LINE = 160  # characters of a line of Markdown outside tables
MAX_CELL = 120  # characters of a table's cell
MAX_MARKDOWN = 32_000  # words of all Markdown together

PRONOUN = re.compile(r'\b(who|whoever|whose|whom)\b', re.I)
SENTENCE_END = re.compile(r'(?<![.\s]\w)(?<!e\.g)(?<!i\.e)[.!?]["\')*_]*(?=\s+["\'(*_]*[A-Z0-9`]|\s*$)')
LITERAL = re.compile(
  r'//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*|R"(\w*)\(.*?\)\1"|\'(?:\\.|[^\'\\\n])+\'|("(?:\\.|[^"\\\n])*")', re.S | re.M
)


def sentences(text):
  begin = 0
  for end in SENTENCE_END.finditer(text):
    yield text[begin : end.end()]
    begin = end.end()
  yield text[begin:]


def words_in(text):
  return sum(bool(re.search(r'[^\W_]', word)) for word in text.split())


def judge(text):
  """What is wrong with a text of one paragraph."""
  for sentence in sentences(text):
    count = words_in(sentence)
    if count > MAX_SENTENCE:
      yield f'a sentence of {count} words, at most {MAX_SENTENCE}: {" ".join(sentence.split()[:6])} ...'
  for word in PRONOUN.findall(text):
    yield f'"{word}": name the agent, peer, owner or proposer'


def plain(text):
  """Markdown without its code, its links' addresses and its emphasis; code counts as a word."""
  text = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', re.sub(r'`[^`]*`', 'Code', text))
  return re.sub(r'<[^>]*>', ' ', text)


def markdown(text):
  """(line, what is wrong) of a page."""
  paragraph, start, fenced = [], 1, False

  def flush():
    found = [(start, what) for what in judge(plain(' '.join(paragraph)))]
    paragraph.clear()
    return found

  for number, line in enumerate(text.splitlines(), 1):
    bare = line.strip()
    if bare.startswith(('```', '~~~')):
      fenced = not fenced
      yield from flush()
    elif fenced or (line.startswith('    ') and not paragraph):
      continue
    elif bare.startswith('|'):
      yield from flush()
      for cell in re.split(r'(?<!\\)\|', bare.strip('|')):
        if len(cell.strip()) > MAX_CELL:
          yield number, f'a cell of {len(cell.strip())} characters, at most {MAX_CELL}'
        for what in judge(plain(cell)):
          yield number, what
    else:
      if len(line) > MAX_LINE:
        yield number, f'a line of {len(line)} characters, at most {MAX_LINE}'
      if not bare or re.match(r'#+ |[-*+] |\d+\. ', bare):
        yield from flush()
      if bare:
        start = start if paragraph else number
        paragraph.append(re.sub(r'^(#+|[-*+]|\d+\.) ', '', bare))
        if bare.startswith('#'):
          yield from flush()
  yield from flush()


def literals(text):
  """(line, text) of each string in C++, with the strings that follow it without anything between."""
  line, at, joined, begun = 1, 0, '', 0
  for match in LITERAL.finditer(text):
    if joined and text[at : match.start()].strip():
      yield begun, joined
      joined = ''
    line += text.count('\n', at, match.start())
    if match[2]:
      begun = begun if joined else line
      joined += re.sub(r'\\n', ' ', re.sub(r'\\(["\\])', r'\1', match[2][1:-1]))
    line += match[0].count('\n')
    at = match.end()
  if joined:
    yield begun, joined


def comments(text):
  """(line, text) of each run of comment lines, and of each comment behind code."""
  run, begun, in_list = [], 1, False
  for number, line in enumerate([*text.splitlines(), ''], 1):
    found = re.match(r'\s*//+ ?(.*)', line)
    body = found[1] if found else ''
    bullet = re.match(r'\s*([-*] |\d+\. )', body)
    drawn = body.startswith('  ') and not bullet and not (run and in_list)  # a diagram, a table or code
    if run and (not body.strip() or bullet or drawn):
      yield begun, ' '.join(run)
      run = []
    if body.strip() and not drawn:
      in_list = bool(bullet) or (bool(run) and in_list)
      begun = begun if run else number
      run.append(re.sub(r'`[^`]*`', 'Code', body))
    elif not found:
      behind = re.search(r'[;,{})]\s*//+ ?(.*)', line)
      if behind:
        yield number, behind[1]


def findings(tree, layers):
  for path, text in sorted(tree.items()):
    if path.endswith('.md'):
      yield from ((path, line, what) for line, what in markdown(text))
    elif path.split('/')[0] in layers and path.endswith(('.h', '.cpp')):
      texts = list(literals(text)) + (list(comments(text)) if path.endswith('.h') else [])
      yield from ((path, line, what) for line, part in sorted(texts) for what in judge(part))


def markdown_words(tree):
  return sum(len(text.split()) for path, text in tree.items() if path.endswith('.md'))


def folder_of(path):
  """The folder that a finding counts for: the room, the folder, or a page at the root."""
  parts = path.split('/')
  return '/'.join(parts[:2]) if len(parts) > 2 else parts[0]


def is_below(path, folders):
  return any(path == folder or path.startswith(folder + '/') for folder in folders)
