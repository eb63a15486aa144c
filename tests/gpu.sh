#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests and measures libcompute on a machine with an NVIDIA GPU; see --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/support/harness/setup.sh"

# What a machine with CUDA, gcc, CMake and ninja may lack, as Debian packages to be unpacked.
CARRIED=(pkgconf pkgconf-bin libpkgconf3 libjansson4 libjansson-dev libmd0 libmd-dev zlib1g zlib1g-dev
  libcmocka0 libcmocka-dev libopenblas0-pthread libgfortran5 ocl-icd-libopencl1 ocl-icd-opencl-dev
  opencl-c-headers opencl-clhpp-headers)

# Tests that take the device from COMPUTE_TEST_DEVICE; and of their programs those that
# compute-sanitizer watches, which makes them slower by a factor of ten to a hundred.
TESTS='^(operations_(cast|convolution|network|network_gradients|operand_kinds|elementwise|gradients|indexed|matmul|random_graphs|reduction|row|sources|structural|eager|large)|plan_(run|bindings|training|endurance)|fit_(run|frames|graph|spots)|graph_(eager|gradients|gradient_cases|optimizer)|tensor_tensor(_copy|_fill|_view)?|nn_(layers|networks|weights|edges)|train_(trainer|replicas|faults|checkpoint)|threads_plans|public_use)$'
WATCHED=(plan_run operations_matmul operations_reduction operations_row
  operations_indexed)

usage() {
  cat <<'TEXT'
Usage: tests/gpu.sh [--build DIR] [--carry DIR] [--results DIR] [--only STEPS] [--quick] [--help]
       tests/gpu.sh --pack DIR

Builds; runs the operation suite and the tests of plans on every GPU backend that works here (cuda:0,
opencl:0 if it is a GPU); has compute-sanitizer watch some of them on cuda:0; measures; and writes
bench/results/<gpu>/: one JSON file for each device, what the tests and the sanitizer said, and the
environment. What cannot be done is left out, and said.

  --pack DIR     on a Debian machine: downloads the packages that another machine may lack and unpacks
                 them into DIR, to be carried there
  --carry DIR    uses the packages unpacked in DIR
  --build DIR    build folder (default: build-gpu/ beside tests/)
  --results DIR  instead of bench/results/<gpu>
  --only STEPS   only these of tests,sanitizer,bench, with ',' between them; it builds in any case
  --quick        the quick benchmarks, and fewer samples for each test

The exit status is 0 if there is cuda:0 and every test that ran has passed.
TEXT
}

build=$SETUP_ROOT/build-gpu carry= results= size=() spread=5 steps=tests,sanitizer,bench
while (($#)); do
  case $1 in
  --pack | --carry | --build | --results | --only)
    (($# > 1)) || { usage >&2; exit 2; }
    case $1 in
    --pack) pack=$(realpath -m "$2") ;;
    --carry) carry=$(realpath "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --results) results=$(realpath -m "$2") ;;
    --only) steps=$2 ;;
    esac
    shift
    ;;
  --quick) size=(--quick) spread=25 ;;
  --help | -h) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
  esac
  shift
done

wanted() { [[ ,$steps, == *",$1,"* ]]; }

left_out=()
leave_out() {
  left_out+=("$*")
  echo "left out: $*" >&2
}

# Links between packages become relative, so that they hold wherever the folder is carried.
pack_packages() {
  local folder=$1 work link target
  work=$(mktemp -d)
  mkdir -p "$folder"
  (cd "$work" && apt-get -qq download "${CARRIED[@]}")
  for package in "$work"/*.deb; do dpkg -x "$package" "$folder"; done
  rm -rf "$work"
  while read -r link; do
    target=$(readlink "$link")
    [[ $target == /* ]] || continue
    ln -sfnr "$folder$target" "$link"
  done < <(find "$folder" -type l)
  du -sh "$folder"
}

if [[ -n ${pack:-} ]]; then
  pack_packages "$pack"
  exit
fi

# Lets compilers, pkg-config, CMake and the loader find what lies in the carried folder.
use_carried() {
  local architecture folder
  architecture=$(gcc -print-multiarch)
  local libraries=$carry/usr/lib/${architecture:-x86_64-linux-gnu}
  export PATH=$PATH:$carry/usr/bin # what the machine has itself comes first
  export CPATH=$carry/usr/include${CPATH:+:$CPATH}
  export LIBRARY_PATH=$libraries${LIBRARY_PATH:+:$LIBRARY_PATH}
  for folder in "$carry/lib/${libraries##*/}" "$libraries/openblas-pthread" "$libraries"; do
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
  export LD_LIBRARY_PATH
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$carry/usr/share/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_SYSROOT_DIR=$carry
  export CMAKE_PREFIX_PATH=$carry/usr
}
[[ -z $carry ]] || use_carried

# A container may have NVIDIA's OpenCL driver without the file that registers it.
use_opencl_driver() {
  local library
  compgen -G '/etc/OpenCL/vendors/*nvidia*' >/dev/null && return
  library=$({ PATH=$PATH:/sbin:/usr/sbin ldconfig -p || true; } |
    sed -n '/libnvidia-opencl\.so\.1 /{s/^.*=> //p;q}')
  if [[ -z $library ]]; then
    leave_out "OpenCL on the NVIDIA GPU: no libnvidia-opencl.so.1"
    return
  fi
  mkdir -p "$build"
  echo "$library" >"$build/nvidia.icd"
  export OCL_ICD_VENDORS=$build/nvidia.icd
}
use_opencl_driver

PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
tests=ON
pkg-config --exists cmocka || { tests=OFF; leave_out "tests: no cmocka, or no pkg-config"; }
setup_build "$build" -DCOMPUTE_TESTS=$tests

export COMPUTE_BACKEND_PATH=$build/lib/compute COMPUTE_TUNING_FILE=none
info=$("$build/bin/compute-info")

# A fact that compute-info tells of a device.
fact() {
  awk -v device="$1" -v fact="$2" '
    /^  [^ ]/ { here = $1 == device }
    here && $1 == fact { sub(/^ *[^ ]+ +/, ""); print; exit }' <<<"$info"
}

devices=() failed=0
for device in cuda:0 opencl:0; do
  type=$(fact "$device" type)
  if [[ -n $type && $type != CPU ]]; then devices+=("$device"); else leave_out "$device: see compute-info"; fi
done
if [[ " ${devices[*]-} " != *" cuda:0 "* ]]; then
  echo "There is no cuda:0:" >&2
  sed -n '/^Modules/,/^Devices/p' <<<"$info" >&2
  failed=1
fi
model=$(fact "${devices[0]-}" model)
slug=$(tr 'A-Z ' 'a-z-' <<<"${model:-no-gpu}" | tr -cd 'a-z0-9-')
results=${results:-$SETUP_ROOT/bench/results/$slug}
mkdir -p "$results"
echo "$info" >"$results/compute-info.txt"

# Nothing may be left to the CPU. Tests that name another device or a stand-in are not of these.
run_tests() {
  local device=$1 log=$results/tests-${1%:*}.txt
  COMPUTE_TEST_DEVICE=$device COMPUTE_TEST_STRICT=1 COMPUTE_TEST_SPREAD=$spread \
    env -C "$build" ctest --parallel 4 --output-on-failure -R "$TESTS" >"$log" 2>&1 || failed=1
  tail -4 "$log"
  log=$results/conformance-${device%:*}.txt
  COMPUTE_TEST_SPREAD=$spread "$build/bin/compute-conformance" "$device" >"$log" 2>&1 || failed=1
  tail -1 "$log"
}

# The programs are run one by one, so that the log says of which a tool speaks.
run_sanitizer() {
  local tool name status log
  command -v compute-sanitizer >/dev/null || { leave_out "compute-sanitizer: not installed"; return 0; }
  export COMPUTE_CACHE_DIR=$build/cache_sanitizer
  mkdir -p "$COMPUTE_CACHE_DIR" "$build/scratch_sanitizer"
  for tool in memcheck racecheck initcheck synccheck; do
    log=$results/sanitizer-$tool.txt
    : >"$log"
    for name in "${WATCHED[@]}"; do
      echo "== $name" >>"$log"
      status=0
      (cd "$build/scratch_sanitizer" && COMPUTE_TEST_DEVICE=cuda:0 COMPUTE_TEST_SPREAD=60 \
        timeout 600 compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$build/tests/bin/$name") >>"$log" 2>&1 || status=$?
      case $status in
      0 | 77) ;;
      124) leave_out "compute-sanitizer $tool of $name: longer than 10 minutes" ;;
      *) failed=1; echo "compute-sanitizer $tool of $name: status $status, see $log" >&2 ;;
      esac
    done
    echo "== compute-conformance" >>"$log"
    COMPUTE_TEST_SPREAD=60 timeout 600 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$build/bin/compute-conformance" cuda:0 >>"$log" 2>&1 ||
      { failed=1; echo "compute-sanitizer $tool of compute-conformance: see $log" >&2; }
    grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$log" | sort | uniq -c || true
  done
}

commit=$(git -C "$SETUP_ROOT" describe --always --dirty 2>/dev/null || true)
for device in ${devices[@]+"${devices[@]}"}; do
  if wanted tests && [[ $tests == ON ]]; then run_tests "$device"; fi
  if wanted bench; then
    "$build/bin/compute-bench" "${size[@]}" --device "$device" ${commit:+--commit "$commit"} \
      --json "$results/bench-${device%:*}.json" || failed=1
  fi
done
if wanted sanitizer && [[ $tests == ON && " ${devices[*]-} " == *" cuda:0 "* ]]; then run_sanitizer; fi

{
  date -u +%Y-%m-%d
  echo "commit: ${commit:-unknown}"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv ||
    echo "no nvidia-smi"
  gcc --version | head -1
  printf 'left out: %s\n' "${left_out[@]:-nothing}"
} >"$results/environment.txt" 2>&1
echo "results: $results"
exit "$failed"
