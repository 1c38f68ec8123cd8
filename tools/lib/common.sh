# Sourced by the scripts of tools/: where things are, how they speak, how they call Meson.
# shellcheck shell=bash
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
build="$root/build"        # everything made here lies below; git ignores it
venv="$build/venv"         # Meson, Ninja, clang-format, ruff
main="$build/meson"        # Meson's own folder for the ordinary build
log="$build/setup.log"     # what apt and pip had to say

meson_version=1.12.1
ninja_version=1.13.2
clang_format_version=23.1.5
ruff_version=0.17.6
torch_version=2.11.0
torch_imports=(filelock==4.3.1 fsspec==2026.9.0 jinja2==3.1.6 networkx==3.6.1 numpy==2.4.6 safetensors==0.8.0
  sympy==1.14.0 typing_extensions==4.16.0)

# What a build needs of Debian; libgloo-dev is what tools/bench and tools/experiments compare with.
packages=(
  ca-certificates ccache g++ mold pkg-config python3-venv
  capnproto cppzmq-dev libcapnp-dev libcli11-dev libeigen3-dev libfmt-dev libgloo-dev libgtest-dev libhwy-dev
  libjpeg-dev libpng-dev libsodium-dev libspdlog-dev libxxhash-dev libyaml-cpp-dev libzmq3-dev nlohmann-json3-dev
  zlib1g-dev
)

export CCACHE_NOHASHDIR=1  # a build in another folder still finds its objects in the cache

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$*"; exit 1; }

# quietly WHAT COMMAND...: its output goes to the log; when it fails, the log's end is shown.
quietly() {
  local what="$1" start
  shift
  say "$what"
  start=$(stat -c %s "$log" 2>/dev/null || echo 0)
  "$@" >>"$log" 2>&1 </dev/null && return
  tail -c "+$((start + 1))" "$log" | tail -n 25 >&2
  say "failed: $what (all of it: $log)"
  return 1
}

meson() { PATH="$venv/bin:$PATH" "$venv/bin/meson" "$@"; }

# Objects that include LibTorch take up to 2 GB each to compile: as many jobs as fit into memory.
ninja() {
  local cores fit
  cores=$(nproc)
  fit=$(awk '/^MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo)
  [ "${fit:-1}" -ge 1 ] || fit=1
  PATH="$venv/bin:$PATH" "$venv/bin/ninja" -j "$((cores < fit ? cores : fit))" "$@"
}

# Prints the libraries that are installed, with their versions.
libraries() {
  if command -v dpkg-query >/dev/null; then
    # shellcheck disable=SC2016  # dpkg-query's own variables
    dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true
  else
    pkg-config --list-all 2>/dev/null | sort || true   # Meson says it better when pkg-config is missing
  fi
}

# meson_folder DIR OPTIONS...: sets DIR up, anew when the options, the compilers or the libraries changed: Meson
# remembers what it did not find.
meson_folder() {
  local folder="$1" key
  shift
  key="$(printf '%s\n' "$meson_version" "$root" "$@"; cat "$build/native.ini"; libraries)"
  [ "$(cat "$folder/starling.key" 2>/dev/null)" = "$key" ] && return
  rm -rf "$folder"
  mkdir -p "$folder"
  meson setup "$folder" "$root" --native-file "$build/native.ini" "$@" >"$folder/setup.log" 2>&1 || {
    tail -n 25 "$folder/setup.log" >&2
    say "meson setup failed (all of it: $folder/setup.log)"
    return 1
  }
  printf '%s\n' "$key" >"$folder/starling.key"
}

# configure: sets up, and makes Meson's folder say what the files of Meson say.
configure() {
  "$root/tools/setup"
  meson_folder "$main" "-Dlibtorch=$(cat "$build/libtorch")" "-Dtogether=${STARLING_TOGETHER:-false}"
  ninja -C "$main" --quiet build.ninja >&2
}

# forget_tests DIR: a crashed program would leave the results of its last good run to be counted again.
forget_tests() {
  [ -d "$1" ] || return 0
  find "$1" -name '*.xml' -type f -delete
  rm -f "$1"/meson-logs/testlog*
}

# summarize DIR...: the closing line over the test logs of these folders; fails when a test did.
summarize() {
  local python="$venv/bin/python"
  [ -x "$python" ] || python=python3
  command -v "$python" >/dev/null || { echo '0 passed, 1 failed'; return 1; }
  "$python" "$root/tests/support/summary.py" "$@"
}
