# SPDX-License-Identifier: MIT
# compute-conformance detects each promise that a module breaks, and names the case. broken.c is the
# module. ctest starts this: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
build=$2 scratch=$3
mkdir -p "$scratch"
export BROKEN_MODULE=$build/lib/compute/libcompute-cpu.so COMPUTE_BACKEND_PATH=$build/lib/compute
conformance() {
  "$build/bin/compute-conformance" --module "$build/tests/broken/libcompute-broken.so" "$@" \
    >"$scratch/output" 2>&1
}

BROKEN_PROMISE=none conformance --quick || { cat "$scratch/output"; exit 1; }
failed=0
while read -r promise name; do
  if BROKEN_PROMISE=$promise conformance --filter "$name"; then
    echo "unnoticed: $promise (case $name)" && failed=1
  elif ! grep -q "^FAILED  $name" "$scratch/output"; then
    echo "$promise: another failure than of $name:" && tail -3 "$scratch/output" && failed=1
  fi
done <<'CASES'
group module/vtable
describe module/describe
reason module/unknown kind
refusal module/unknown kind
room module/length of a reason
leak module/nothing is left
second module/two instances
alignment memory/sizes and alignment
parts memory/parts
silence memory/exhaustion
order queue/order of copies
numbers queue/order of kernels
event event/complete
clock timer/clock
numbers kernel/gemm/1x64x64x64 NN f32
guard kernel/map/dense f32
input kernel/copy/dense f32 to f32
bits kernel/instruction/add f32 of f32
text kernel/map/prime f32
agreement kernel/scan/sum 3x37 f32>f32 dense
index index outside/gather rows f32 by i64
words fault/memory
CASES
exit "$failed"
