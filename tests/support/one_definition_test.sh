#!/usr/bin/env bash
# one_definition_test.sh ROOT: no two files define the same name differently, reported as TAP.
# A compiler sees one file at a time, and the linker keeps either definition without a word; g++ compares types when it
# links what was compiled with -flto. Not optimized, since inlining removes types before they are compared.
set -euo pipefail
. "$1/tools/lib/common.sh"

fatal=(-Werror=odr -Werror=lto-type-mismatch)

# Two files that disagree about one struct must not link.
finds_what_was_planted() {
  local folder result=0
  folder="$(mktemp -d)"
  echo 'struct State { int a; }; int other(); int main() { State x{3}; return x.a + other(); }' >"$folder/a.cpp"
  echo 'struct State { double b; char c; }; int other() { State y{1, 2}; return y.c; }' >"$folder/b.cpp"
  g++ -O0 -flto=auto "${fatal[@]}" -o "$folder/program" "$folder/a.cpp" "$folder/b.cpp" 2>"$folder/said" && result=1
  grep -q 'violates the C++ One Definition Rule' "$folder/said" || result=1
  rm -r "$folder"
  return "$result"
}

all_links() {
  meson_folder "$build/odr" "-Dlibtorch=$(cat "$build/libtorch")" -Db_lto=true -Doptimization=0 -Dcuda=disabled \
    "-Dcpp_link_args=${fatal[*]}" && ninja -C "$build/odr"
}

report() {   # NUMBER NAME COMMAND
  if "$3" >&2; then echo "ok $1 - $2"; else echo "not ok $1 - $2"; fi
}

if [ ! -e "$build/native.ini" ] || [ ! -e "$build/libtorch" ]; then
  echo '1..0 # SKIP tools/setup has not been run'
  exit
fi
echo 1..2
report 1 'finds what was planted' finds_what_was_planted
report 2 'one definition of everything' all_links
