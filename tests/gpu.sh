#!/bin/bash
# Tests and measures libcompute on a machine with an NVIDIA GPU; see --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/support/setup.sh"

# What a machine with CUDA, gcc, CMake and ninja may lack, as Debian packages to be unpacked.
CARRIED=(libjansson4 libjansson-dev libmd0 libmd-dev zlib1g zlib1g-dev libcmocka0 libcmocka-dev
  libopenblas0-pthread libgfortran5 ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-c-headers)

usage() {
  cat <<'TEXT'
Usage: tests/gpu.sh [--build DIR] [--carry DIR] [--results DIR] [--quick] [--help]
       tests/gpu.sh --pack DIR

Builds, runs the operation suite and the tests of plans on every GPU backend that works here (cuda:0,
opencl:0 if it is a GPU), measures, and writes bench/results/<gpu>/: one JSON file for each device, what
the tests said, and the environment. What cannot be done is left out, and said.

  --pack DIR     on a Debian machine: downloads the packages that another machine may lack and unpacks
                 them into DIR, to be carried there
  --carry DIR    uses the packages unpacked in DIR
  --build DIR    build folder (default: build-gpu/ beside tests/)
  --results DIR  instead of bench/results/<gpu>
  --quick        the quick benchmarks

The exit status is 0 if every test that ran has passed.
TEXT
}

build=$SETUP_ROOT/build-gpu carry= results= size=()
while (($#)); do
  case $1 in
  --pack | --carry | --build | --results)
    (($# > 1)) || { usage >&2; exit 2; }
    case $1 in
    --pack) pack=$(realpath -m "$2") ;;
    --carry) carry=$(realpath "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --results) results=$(realpath -m "$2") ;;
    esac
    shift
    ;;
  --quick) size=(--quick) ;;
  --help | -h) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
  esac
  shift
done

left_out=()
leave_out() {
  left_out+=("$*")
  echo "left out: $*" >&2
}

pack_packages() {
  local folder=$1 work
  work=$(mktemp -d)
  mkdir -p "$folder"
  (cd "$work" && apt-get -qq download "${CARRIED[@]}")
  for package in "$work"/*.deb; do dpkg -x "$package" "$folder"; done
  rm -rf "$work"
  du -sh "$folder"
}

if [[ -n ${pack:-} ]]; then
  pack_packages "$pack"
  exit
fi

# Lets compilers, pkg-config, CMake and the loader find what lies in the carried folder.
use_carried() {
  local libraries=$carry/usr/lib/x86_64-linux-gnu
  export CPATH=$carry/usr/include${CPATH:+:$CPATH}
  export LIBRARY_PATH=$libraries${LIBRARY_PATH:+:$LIBRARY_PATH}
  export LD_LIBRARY_PATH=$libraries:$libraries/openblas-pthread${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PKG_CONFIG_PATH=$libraries/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_SYSROOT_DIR=$carry
  export CMAKE_PREFIX_PATH=$carry/usr
}
[[ -z $carry ]] || use_carried

command -v nvidia-smi >/dev/null || { echo "No nvidia-smi: this machine has no NVIDIA driver." >&2; exit 1; }
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
slug=$(tr 'A-Z ' 'a-z-' <<<"$gpu" | tr -cd 'a-z0-9-')
results=${results:-$SETUP_ROOT/bench/results/$slug}
mkdir -p "$results"

unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
tests=ON
pkg-config --exists cmocka || { tests=OFF; leave_out "tests: no cmocka"; }
setup_build "$build" -DCOMPUTE_TESTS=$tests

export COMPUTE_BACKEND_PATH=$build/lib/compute
devices=()
for device in cuda:0 opencl:0; do
  if "$build/bin/compute-info" --json | python3 -c '
import json, sys
wanted = sys.argv[1]
sys.exit(not any(d["name"] == wanted and d["type"] != "CPU" for d in json.load(sys.stdin)["devices"]))
' "$device"; then devices+=("$device"); else leave_out "$device: see compute-info"; fi
done
"$build/bin/compute-info" >"$results/compute-info.txt"

failed=0
run_tests() {
  local device=$1 log=$results/tests-${1%:*}.txt
  COMPUTE_TEST_DEVICE=$device ctest --test-dir "$build" --output-on-failure \
    -R '^(operations_(cast|elementwise|gradients|indexed|matmul|random_graphs|reduction|row|structural|eager|large)|plan_(run|bindings|training|endurance)|graph_(eager|gradients|optimizer)|tensor_.*|kernel_custom.*)$' \
    >"$log" 2>&1 || failed=1
  tail -4 "$log"
}

sanitize() {
  local tool
  command -v compute-sanitizer >/dev/null || { leave_out "compute-sanitizer: not installed"; return 0; }
  for tool in memcheck racecheck initcheck synccheck; do
    COMPUTE_TEST_DEVICE=cuda:0 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$build/tests/bin/plan_run" >"$results/sanitizer-$tool.txt" 2>&1 || failed=1
    tail -1 "$results/sanitizer-$tool.txt"
  done
}

for device in "${devices[@]}"; do
  [[ $tests == OFF ]] || run_tests "$device"
  commit=$(git -C "$SETUP_ROOT" describe --always --dirty 2>/dev/null || true)
  "$build/bin/compute-bench" "${size[@]}" --device "$device" ${commit:+--commit "$commit"} \
    --json "$results/bench-${device%:*}.json" || failed=1
done
if [[ $tests == ON && " ${devices[*]} " == *" cuda:0 "* ]]; then sanitize; fi

{
  date -u +%Y-%m-%d
  git -C "$SETUP_ROOT" describe --always --dirty 2>/dev/null || true
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv
  printf 'left out: %s\n' "${left_out[@]:-nothing}"
} >"$results/environment.txt"
echo "results: $results"
exit "$failed"
