"""embed_page.py PAGE.html OUT.h NAME: a web page as one C++ string that needs nothing else.

Style sheets and scripts that the page links to, beside it or by a relative path, are put in their place. The page stays
a real file that a browser shows and a linter reads.
"""

import pathlib
import re
import sys

MARK = ')page"'
PIECE = 12000  # bytes of one literal; compilers need not take more than 64 KiB at once

page, out, name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]


def content(link, end):
  text = (page.parent / link).read_text(encoding='utf-8')
  if end in text:
    raise SystemExit(f'embed_page: {link} holds {end}, which would end its element early; write it in two parts')
  return text


text = page.read_text(encoding='utf-8')
text = re.sub(
  r'<link rel="stylesheet" href="([^"]+)">', lambda m: '<style>\n' + content(m[1], '</style') + '</style>', text
)
text = re.sub(
  r'<script src="([^"]+)"></script>', lambda m: '<script>\n' + content(m[1], '</script') + '</script>', text
)
left = re.search(r'\b(src|href)=', text)
if left:
  raise SystemExit(f'embed_page: {page} still refers to another file: {text[left.start() : left.start() + 60]}')
if MARK in text:
  raise SystemExit(f'embed_page: {page} holds {MARK}, which ends a C++ literal')
pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)]
literal = '\n'.join(f'R"page({piece}{MARK}' for piece in pieces)
out.write_text(
  f'''// Made from {page.name}. Do not edit.
#pragma once

#include <string_view>

namespace starling {{

inline constexpr std::string_view {name} =
{literal};

}}  // namespace starling
''',
  encoding='utf-8',
)
