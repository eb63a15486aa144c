# SPDX-License-Identifier: MIT
# bench/peers/compare.py measures, and pages.py makes pages, whatever engines are there: libcompute is.
# ctest starts this: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
peers=$tree/bench/peers file=$scratch/peers.json pages=$scratch/pages

source "$tree/tests/support/harness/needs.sh"
fail() { echo "FAILED: $*"; exit 1; }

needs python3 python3
rm -rf "$scratch"
mkdir -p "$scratch"
measure() { # ROWS
  python3 "$peers/compare.py" --build "$build" --models "$scratch" --engines libcompute --rounds 2 \
    --seconds 0.001 --rows "$1" --json "$file"
}
measure train_mlp_b128 | tee "$scratch/first"
grep -q '^train_mlp_b128 .* ms' "$scratch/first" || fail "training steps are not measured"
# Single operations need numpy and onnx; compare.py reports it if they are missing.
measure 'sgemm_64,no_such_row' | tee "$scratch/second"
grep -Eq '^sgemm_64 .* ms|left out: No module named' "$scratch/second" || fail "no operation and no reason"
grep -q '"row": "train_mlp_b128"' "$file" || fail "an earlier record is lost"

# The folder of a machine becomes a page.
mkdir -p "$scratch/results/machine"
cp "$file" "$scratch/results/machine/peers.json"
make_pages() { python3 "$tree/bench/pages.py" --results "$scratch/results" --pages "$pages" "$@"; }
! make_pages --check >/dev/null || fail "a machine without its page passes"
make_pages
make_pages --check
grep -q '^| train_mlp_b128 | ' "$pages/machine.md" || fail "not the table: $(cat "$pages/machine.md")"
