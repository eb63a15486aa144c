#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests groups over an MPI of this machine: TREE BUILD_DIR SCRATCH_DIR openmpi|mpich. Skipped (77)
# if its transport is not built or its launcher is not installed.
set -uo pipefail
tree=$1 build=$2 scratch=$3 name=$4
launcher=mpirun.$name
case $name in # options that keep the other ranks alive when one dies
openmpi) survive=--enable-recovery ;;
mpich) survive=-disable-auto-cleanup ;;
*) exit 2 ;;
esac
if [[ ! -e $build/lib/compute/libcompute-transport-$name.so ]] || ! command -v "$launcher" >/dev/null; then
  echo "skipped: the transport for $name is not built, or $launcher is not installed (Debian: lib$name-dev and its launcher)"
  exit 77
fi
ranks=$build/tests/bin/group_ranks
data=$tree/bench/data/digits.csv.gz
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks share processors, and the machine's network does not matter.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl=self,vader OMPI_MCA_hwloc_base_binding_policy=none
# The launcher of Open MPI 5 is PRRTE, which has separate variables.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
# It finds no processors in a chroot without /sys.
if ! said=$("$launcher" -n 1 true 2>&1); then
  echo "skipped: $launcher cannot start a program here: $(grep -v '^-*$' <<<"$said" | tail -n 1)"
  exit 77
fi
mkdir -p "$scratch"
failed=0

# run LIMIT WANTED_STATUS COMMAND…: prints the output on another status, or after the limit.
run() {
  local limit=$1 wanted=$2 status
  shift 2
  timeout -k 5 "$limit" "$@" >"$scratch/output" 2>&1
  status=$?
  if [[ $wanted == any && $status != 124 && $status != 137 || $status == "$wanted" ]]; then return; fi
  echo "status $status instead of $wanted: $*"
  cat "$scratch/output"
  failed=1
}

# says TEXT: checks that the last output contains it.
says() {
  grep -q -- "$1" "$scratch/output" || { echo "the output lacks '$1':"; cat "$scratch/output"; failed=1; }
}

# The guide's program for models larger than a device.
divided=$scratch/divided
awk '/^## Models larger/ {on = 1} on && /^```c$/ {take = 1; next} take && /^```$/ {exit} take' \
  "$tree/docs/guide/cluster.md" >"$divided.c"
"${CC:-cc}" -std=c11 -I"$tree/include" "$divided.c" -o "$divided" -L"$build/lib" -lcompute -lm \
  -Wl,-rpath,"$build/lib" || exit 1

# gpus WORDS VARIABLE=VALUE…: two ranks with a simulated GPU each, and NCCL's stand-in.
gpus() {
  local words=$1 libraries=$build/tests/cuda_stand_in_libraries:$build/tests/cuda_stand_in
  shift
  [[ -e $build/tests/cuda_stand_in_libraries/libnccl.so.2 ]] || return
  run 120 0 "$launcher" -n 2 env LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    COMPUTE_CUDA_LIBRARIES=nccl COMPUTE_TEST_CUDA=device_count=2 "$@" "$ranks" gpus "$words"
  says "gpus: 2 ranks"
}

for count in 1 2 3 4; do
  run 120 0 "$launcher" -n $count "$ranks" calls
  says "calls: $count ranks over $name"
  run 120 0 "$launcher" -n $count "$ranks" divide "$data" "$scratch/$name.divided.safetensors"
  says "divide: $count ranks over $name"
  run 120 0 "$launcher" -n $count "$ranks" gradients
  says "gradients: $count ranks over $name"
done
for count in 1 2 4; do
  run 120 0 env COMPUTE_DEVICE=cpu "$launcher" -n $count "$divided"
  says "bytes of weights on each of $count"
  grep '^step' "$scratch/output" >"$scratch/losses.$count"
  cmp -s "$scratch/losses.1" "$scratch/losses.$count" ||
    { echo "$count ranks have other losses:"; cat "$scratch/losses.1" "$scratch/output"; failed=1; }
done
run 300 0 "$launcher" -n 4 "$ranks" train "$data" "$scratch/$name.safetensors"
says "train: 4 ranks"
run 300 0 "$launcher" -n 2 "$ranks" resume "$data" "$scratch/$name.safetensors"
says "resume: 2 ranks"
if [[ -x $build/bin/compute-info ]]; then
  run 120 0 "$launcher" -n 2 "$build/bin/compute-info" --group
  says "2 on 1 host"
  says "rank 1: .* local rank 1"
fi
gpus NCCL
gpus 'pinned host memory' COMPUTE_GROUP_HOST_ONLY=1
gpus 'device memory where nothing is added' COMPUTE_CUDA_LIBRARIES=none \
  LD_PRELOAD="$build/tests/bin/cuda_aware_mpi.so"
if [[ -x $build/bin/compute-bench ]]; then
  run 120 0 "$launcher" -n 2 "$build/bin/compute-bench" --suite group --threads 1 --quick --filter '*_4B'
  says "group: 2 ranks on 1 host, 1 thread each, over $name"
  says "send_4B"
fi
rm -f "$scratch/error"
run 120 any "$launcher" -n 2 "$ranks" late "$scratch/error"
for text in "rank 0 of 2 waited 1 s for other ranks, which is the limit; $name does not tell which" 'an earlier group of this process has failed'; do
  grep -q "$text" "$scratch/error" || { echo "$name, late: no '$text'"; cat "$scratch/output"; failed=1; }
done
for fault in stop die; do
  rm -f "$scratch/error"
  COMPUTE_GROUP_TIMEOUT=3 run 120 any "$launcher" "$survive" -n 3 "$ranks" $fault "$scratch/error"
  # MPICH's launcher may end the other ranks before they see an error.
  [[ $name-$fault == mpich-die ]] && continue
  grep -q 'rank 0: compute_group_all_reduce: ' "$scratch/error" ||
    { echo "$name, $fault: rank 0 has no error"; cat "$scratch/output"; failed=1; }
  # MPI itself may report a death before the limit.
  [[ $fault == die ]] && ! grep -q waited "$scratch/error" && continue
  grep -q 'limit; rank 1 did not arrive' "$scratch/error" ||
    { echo "$name, $fault: rank 1 is not named"; cat "$scratch/error"; failed=1; }
done
exit $failed
