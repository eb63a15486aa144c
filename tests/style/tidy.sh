# SPDX-License-Identifier: MIT
# clang-tidy finds no defect in a tenth of the library's, the backends' and the benchmark's files;
# the days share them (share.sh). ctest starts this: TREE BUILD_DIR SCRATCH_DIR [FILE…]. The checks
# are in .clang-tidy. If one is wrong about a line, /* NOLINT(check): reason */ stands beside it.
set -euo pipefail
tree=$1 build=$2 scratch=$3
shift 3
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
needs clang-tidy clang-tidy
mkdir -p "$scratch"

# A configuration that finds nothing would pass.
cat >"$scratch/defect.c" <<'PROGRAM'
#include <string.h>
void clear(char *text, int length);
void clear(char *text, int length) { memset(text, length, 0); }
PROGRAM
if clang-tidy --quiet --config-file="$tree/.clang-tidy" "$scratch/defect.c" -- >"$scratch/log" 2>&1; then
  echo "clang-tidy passes a memset of no bytes"
  exit 1
fi
grep -q 'bugprone-suspicious-memset-usage' "$scratch/log" || { cat "$scratch/log"; exit 1; }

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t all < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" |
    grep -E "^$tree/(src|backends|bench)/.*\.c$" | LC_ALL=C sort -u)
  ((${#all[@]} > 300)) || { echo "the build compiles only ${#all[@]} files"; exit 1; }
  mapfile -t files < <(printf '%s\n' "${all[@]}" | share_lines 10)
fi
echo "clang-tidy: ${#files[@]} files"
printf '%s\n' "${files[@]}" |
  xargs -d '\n' -n 10 clang-tidy --quiet -p "$build" 2>"$scratch/log" || {
  grep -vE '^[0-9]+ warnings? generated' "$scratch/log" || true
  exit 1
}
