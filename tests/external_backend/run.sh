# SPDX-License-Identifier: MIT
# Installs the build, builds a backend module and a program with only the installed headers and
# library, and runs the program with the module's folder in COMPUTE_BACKEND_PATH. Started by ctest:
# TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
fail() { echo "$1"; exit 1; }

# Neither the build folder nor the caller's environment may help.
unset COMPUTE_BACKEND_PATH COMPUTE_DEVICE COMPUTE_BACKENDS LD_LIBRARY_PATH

rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(realpath "$scratch")
prefix=$scratch/prefix

quietly() { # LOG COMMAND…: shows the command's output only if it fails
  local log=$scratch/$1.log
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; fail "failed: $*"; }
}

quietly install cmake --install "$build" --prefix "$prefix"
# The sources are copied, so that no relative include reaches into the tree.
cp -r "$tree/tests/external_backend" "$scratch/source"
quietly configure cmake -S "$scratch/source" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_COMPILER="${CC:-cc}"
quietly build cmake --build "$scratch/build"

module=$scratch/build/modules/libcompute-external.so
symbols=$(nm -D --defined-only "$module" | awk '{print $3}')
[ "$symbols" = compute_backend_entry ] || fail "the module exports more than its entry: $symbols"
if readelf -d "$module" | grep -q 'libcompute\.so'; then fail "the module is linked to libcompute"; fi

COMPUTE_BACKEND_PATH=$scratch/build/modules "$scratch/build/driver"

# As in docs/internals/backends.md.
export COMPUTE_CACHE_DIR=$scratch/cache
conformance() { "$prefix/bin/compute-conformance" --module "$module" "$@"; }
conformance --expect "$scratch/source/expectations.txt" --json "$scratch/report.json" ||
  fail "the module does not keep its promises"
conformance --write-expect "$scratch/again.txt" >"$scratch/conformance.log" ||
  { cat "$scratch/conformance.log"; fail "without expectations something fails"; }
conformance --expect "$scratch/again.txt" --quick >"$scratch/conformance.log" ||
  { cat "$scratch/conformance.log"; fail "expectations that were just written are not met"; }
COMPUTE_BACKEND_PATH=$scratch/build/modules "$prefix/bin/compute-conformance" --quick external:0 \
  >"$scratch/conformance.log" || { cat "$scratch/conformance.log"; fail "by COMPUTE_BACKEND_PATH"; }

# Three expectations that must fail: a superfluous line, one that expects less than the module does,
# and a missing one.
refuses() { # WORDS FILE: conformance with the expectations in FILE prints WORDS and fails
  if conformance --expect "$2" --quick >"$scratch/conformance.log" 2>&1; then
    fail "nothing is wrong with $(basename "$2")"
  fi
  grep -q "$1" "$scratch/conformance.log" || { cat "$scratch/conformance.log"; fail "not a word of: $1"; }
}
{ cat "$scratch/again.txt"; echo 'refused kernel/none/* # there is no such kind'; } >"$scratch/stale.txt"
refuses "no case matches 'kernel/none" "$scratch/stale.txt"
{ cat "$scratch/again.txt"; echo 'refused memory/parts # not true'; } >"$scratch/better.txt"
refuses 'memory/parts: passed, but' "$scratch/better.txt"
grep -v '^refused timer/' "$scratch/again.txt" >"$scratch/missing.txt"
refuses 'UNEXPECTED refusal  timer/clock' "$scratch/missing.txt"
echo 'refuse everything' >"$scratch/wrong.txt"
refuses "wrong.txt:1: must be 'OUTCOME PATTERN" "$scratch/wrong.txt"
if conformance nowhere:3 2>"$scratch/conformance.log"; then fail "there is a device nowhere:3"; fi
grep -q "no device 'nowhere:3'" "$scratch/conformance.log" || { cat "$scratch/conformance.log"; fail "words"; }
