# SPDX-License-Identifier: MIT
# bench/cliffs draws the same cases again from a seed, and finds no wrong result. Started by ctest: TREE BUILD_DIR
# SCRATCH_DIR [drawn]. Without "drawn", libcompute is alone, with the numpy and onnx of COMPUTE_TEST_PYTHON or python3.
# With "drawn", ONNX Runtime and OpenVINO come from PyPI, and the times are a report: they fail nothing.
set -euo pipefail
tree=$1 build=$2 scratch=$3 which=${4-}
source "$tree/tests/support/harness/environment.sh"
source "$tree/tests/support/harness/share.sh"
fail() { echo "FAILED: $*"; exit 1; }

needs python3 python3
rm -rf "$scratch"/*.jsonl "$scratch/drawn"
mkdir -p "$scratch"
python=${COMPUTE_TEST_PYTHON:-python3}
if [[ $which == drawn ]]; then python_environment "$scratch" numpy onnx onnxruntime openvino; fi
"$python" -c 'import numpy, onnx.helper' 2>"$scratch/log" || skip "$(tail -n 1 "$scratch/log") (PyPI: numpy, onnx)"
export COMPUTE_CACHE_DIR=$scratch/cache PYTHONDONTWRITEBYTECODE=1
cliffs() { "$python" "$tree/bench/cliffs/cliffs.py" --build "$build" "$@"; }

if [[ $which == drawn ]]; then
  cliffs --seed "${COMPUTE_TEST_SEED:-1}" --count 1000 --minutes 5 --json "$scratch/drawn.jsonl" >"$scratch/list" || {
    tail -n 3 "$scratch/list"
    exit 1
  }
  "$python" "$tree/bench/cliffs/report.py" "$scratch/drawn.jsonl"
  exit 0
fi

# The page agrees with the file and the causes.
for results in "$tree"/bench/cliffs/results/*.json; do
  "$python" "$tree/bench/cliffs/report.py" "$results" --page "$tree/docs/performance/cliffs.md" \
    --picture "$tree/docs/images/predicted.svg" --check
done

# Every operator of the reader is drawn, or has a reason.
"$python" - "$tree" <<'PYTHON'
import os, re, sys
sys.path.insert(0, os.path.join(sys.argv[1], "bench", "cliffs"))
import case, registry
text = open(os.path.join(sys.argv[1], "docs", "reference", "onnx.md"), encoding="utf-8").read()
text = text.split("<!-- operators -->")[1].split("<!-- end of operators -->")[0]
reasons = {name for names in registry.NOT_DRAWN for name in names.split()}
missing = []
for domain, names in re.findall(r"\*\*([a-z.]+)\*\*\n\n(.*?)(?=\n\n)", text, re.S):
    for name in set(re.findall(r"`(\w+)`", names)):
        full = name if domain == "ai.onnx" else f"{domain}.{name}"
        if full not in registry.OPERATORS and full not in reasons:
            missing.append(full)
sys.exit(f"FAILED: not drawn: {', '.join(sorted(missing))}" if missing else 0)
PYTHON

cliffs --draw --seed 5 --count 20 >"$scratch/first"
cliffs --draw --seed 5 --count 20 >"$scratch/second"
cmp "$scratch/first" "$scratch/second" || fail "a seed draws other cases"
[[ $(wc -l <"$scratch/first") == 20 ]] || fail "not 20 cases"
read -r name text words <<<"$(sed -n 7p "$scratch/first")"
measure() { cliffs --peers '' --rounds 1 --more-rounds 0 --seconds 0.0005 "$@"; }
measure --seed 5 --count 20 --json "$scratch/run.jsonl" >"$scratch/list" || fail "$(tail -n 1 "$scratch/list")"
[[ $(grep -c '"verdict"' "$scratch/run.jsonl") == 20 ]] || fail "not 20 records"
! grep -q '"verdict": "refused"' "$scratch/run.jsonl" || fail "a case is refused: $(grep refused "$scratch/list")"

# By its name and by its choices, a case is the same; its files can be kept.
measure --case "$name" --keep "$scratch/kept" --json "$scratch/name.jsonl" >"$scratch/list"
measure --case "$text" --json "$scratch/text.jsonl" >>"$scratch/list"
for file in name text; do
  grep -qF "\"words\": \"$words\"" "$scratch/$file.jsonl" || fail "$name is another case by its $file"
done
[[ -s $scratch/kept/${name/:/_}.onnx && -s $scratch/kept/${name/:/_}.npz ]] || fail "the model is not kept"
"$python" "$tree/bench/cliffs/report.py" "$scratch/run.jsonl" --json "$scratch/summary.json" >"$scratch/list"
"$python" "$tree/bench/cliffs/report.py" "$scratch/summary.json" --page "$scratch/page.md" >"$scratch/list"
grep -q '^| single operations | ' "$scratch/page.md" || fail "not a page: $(head -n 20 "$scratch/page.md")"
