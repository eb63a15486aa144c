# SPDX-License-Identifier: MIT
# bench/peers/compare.py measures, and table.py makes tables, with any available engines; libcompute is
# always available. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
peers=$tree/bench/peers file=$scratch/peers.json page=$scratch/page.md

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

printf 'Before\n<!-- peers: peers.json -->\n<!-- /peers -->\nafter\n' >"$page"
! python3 "$peers/table.py" --page "$page" --check 2>/dev/null || fail "a page without its table passes"
python3 "$peers/table.py" --page "$page"
python3 "$peers/table.py" --page "$page" --check
grep -q '^| train_mlp_b128 | ' "$page" && grep -q '^after$' "$page" || fail "not the table: $(cat "$page")"

# The tables in the tree match the files in the tree.
python3 "$peers/table.py" --page "$tree/docs/internals/performance.md" --check
