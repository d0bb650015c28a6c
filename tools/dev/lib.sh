# Shared by the scripts of tools/dev and by .ci/run: `source` it. It finds the tree, so that
# every script works from any directory, and holds the few helpers that all of them need.
# shellcheck shell=bash
set -euo pipefail
GYRE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$GYRE_ROOT"
export HOME=${HOME:-/root}
PYTHON=/usr/bin/python3  # Debian's own: another python3 on PATH lacks Debian's modules.

say() { printf '\n==> %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# usage_if_asked "$@": prints the comment block at the head of the calling script for --help.
usage_if_asked() {
  case ${1:-} in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
}

setup() { "$GYRE_ROOT/tools/dev/setup" --quiet; }

export ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-19
export TSAN_OPTIONS=suppressions=$GYRE_ROOT/tools/dev/tsan_suppressions.txt:external_symbolizer_path=/usr/bin/llvm-symbolizer-19

# bazel with plain output when nobody watches a terminal.
bazel_run() {
  local command=$1; shift
  if [ -t 1 ] && [ -z "${CI:-}" ]; then
    bazel "$command" "$@"
  else
    bazel "$command" --color=no --curses=no --show_progress_rate_limit=20 "$@"
  fi
}

# bazel_test OPTIONS... PATTERNS...: keeps going after a failure and prints one line a target.
bazel_test() { bazel_run test --keep_going --test_summary=short "$@" </dev/null; }

# existing_packages DIR...: those of the directories that hold a BUILD file, as bazel patterns.
existing_packages() {
  local dir
  for dir in "$@"; do
    if [ -n "$(find "$dir" -name BUILD -print -quit 2>/dev/null)" ]; then echo "//$dir/..."; fi
  done
}

# The scripts that start a server build it in this config: opt, asan or tsan.
GYRE_CONFIG=${GYRE_CONFIG:-opt}

# build TARGET...: a binary of it is then $(binary_of TARGET).
build() { bazel_run build --config="$GYRE_CONFIG" "$@" </dev/null >&2; }
binary_of() { echo "$(bazel info --config="$GYRE_CONFIG" bazel-bin 2>/dev/null)/$(echo "${1#//}" | tr : /)"; }
