#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs small kernels of every kind on oclgrind, which interprets OpenCL and reports data races,
# uninitialised values, accesses out of bounds and wrong use of the API. ctest starts this: TREE
# BUILD_DIR SCRATCH_DIR ICD LAYER races|uninitialised ORDERS [TUNING [ONLY]].
#
# ORDERS are for the layer: cpu=1 for the kernels of CPUs, gpu=1 for the kernels of GPUs. TUNING
# forces the parameters of generated kernels; ONLY selects samples by a part of their name. For
# races, TEST_PROGRAM may name another program, with TEST_ARGUMENTS: an option, its value and a
# device.
set -euo pipefail
program=${TEST_PROGRAM:-$2/tests/bin/opencl_small_kernels} scratch=$3 mode=$6
read -ra arguments <<<"${TEST_ARGUMENTS:-}"
mkdir -p "$scratch"
log=$scratch/report output=$scratch/output
# A plain device environment: no tuning, no cache.
export OCL_ICD_VENDORS=$4 OPENCL_LAYERS=$5 COMPUTE_TEST_LAYER=$7,no_touch=1 COMPUTE_TUNING=${8:-}
export COMPUTE_TEST_DEVICE=opencl:0 COMPUTE_TEST_STRICT=1 COMPUTE_TUNING_FILE=none
export COMPUTE_CACHE_LIMIT=0
[[ -z ${9:-} ]] || export SMALL_KERNELS_ONLY=$9
export OCLGRIND_CHECK_API=1 OCLGRIND_LOG=$log OCLGRIND_MAX_ERRORS=50
# oclgrind claims half precision, but cannot convert it.
options=-Ucl_khr_fp16

# Runs the program; its failure, or any report by oclgrind, ends the test.
check() {
  local status=0
  rm -f "$log"
  "$program" ${arguments[@]+"${arguments[@]}"} >"$output" 2>&1 || status=$?
  ((status != 77)) || return 77
  if ((status)) || [[ -s $log ]]; then
    cat "$output"
    [[ ! -s $log ]] || { echo "oclgrind reports:" && head -60 "$log"; }
    exit 1
  fi
}

case $mode in
races)
  export OCLGRIND_DATA_RACES=1 OCLGRIND_BUILD_OPTIONS=$options
  check
  cat "$output"
  ;;
uninitialised)
  # Without optimisation, which adds an instruction that this part of oclgrind does not support.
  export OCLGRIND_UNINITIALIZED=1 OCLGRIND_BUILD_OPTIONS="$options -cl-opt-disable"
  for ((sample = 0; ; sample++)); do
    SMALL_KERNELS_PLAIN=$sample check || break
  done
  echo "$sample samples"
  ((sample > 20))
  ;;
*) exit 2 ;;
esac
