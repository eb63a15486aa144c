#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests and measures libcompute on a machine with an NVIDIA GPU; see --help.
set -euo pipefail
harness=$(dirname "${BASH_SOURCE[0]}")/support/harness
# shellcheck source=support/harness/setup.sh
source "$harness/setup.sh"
# shellcheck source=support/harness/gpu_machine.sh
source "$harness/gpu_machine.sh"
# shellcheck source=support/harness/gpu_runner.sh
source "$harness/gpu_runner.sh"
# shellcheck source=support/harness/gpu_steps.sh
source "$harness/gpu_steps.sh"

usage() {
  cat <<'TEXT'
Usage: tests/gpu.sh [--build DIR] [--prebuilt] [--carry DIR] [--results DIR] [--only STEPS]
                    [--device D] [--limit SECONDS] [--commit ID] [--quick] [--dry-run]
       tests/gpu.sh --list
       tests/gpu.sh --pack DIR

Builds; then runs a table of steps, which --list prints, on the GPU backends that work here (cuda:0,
opencl:0 if it is a GPU), also torch if python3 has it. A step writes bench/results/<gpu>/
<step>-<commit>.txt, its log, and .json, its figures, without this machine's paths. No file is ever
replaced: a second run writes <step>-<commit>-2. steps-<commit>.txt tells how every step ended.

The steps are in the order of their worth, and the script may be ended at any second. SIGTERM and
Ctrl-C end the step that runs, and its files say so. After SIGKILL the files of the steps before are
complete, and those of the last one are in <step>-<commit>.part/. What cannot be done is left out, and
said. The machine needs a C compiler, CMake and ninja; other packages can be carried there:

  --pack DIR     on a Debian machine: downloads the packages that another machine may lack and unpacks
                 them into DIR, to be carried there
  --carry DIR    uses the packages unpacked in DIR
  --build DIR    build folder (default: build-gpu/ beside tests/)
  --prebuilt     the build folder was made on another machine, at the same path: neither configures
                 nor builds
  --results DIR  instead of bench/results/<gpu>
  --list         prints the steps: name, seconds of the step, seconds up to its end, what it does
  --only STEPS   only these steps, with ',' between them; it builds in any case
  --device D     only this of cuda:0 and opencl:0
  --limit S      seconds of all steps together (default: 720), the build not counted; a step that its
                 time ends has at most 10 seconds to write what it has
  --commit ID    names what is measured (default: what git says)
  --quick        the quick benchmarks, and fewer samples for each test; COMPUTE_TEST_SPREAD=N: one
                 sample in N
  --dry-run      without a GPU: shows every command, and runs it in miniature on the tests' stand-in
                 for the driver where that is possible (default of --results: gpu-dry-run/ in the build
                 folder); a build folder that there is counts as --prebuilt

Kernels are kept in COMPUTE_CACHE_DIR (default: gpu-cache/ in the build folder); the first step fills
it. The exit status is 0 if there is cuda:0 and no step that ran has failed.
TEXT
}

build=$SETUP_ROOT/build-gpu carry='' results='' selected='' prebuilt='' dry='' commit=''
size=() spread=5 candidates=(cuda:0 opencl:0) limit=720
while (($#)); do
  case $1 in
  --pack | --carry | --build | --results | --only | --device | --limit | --commit)
    (($# > 1)) || { usage >&2; exit 2; }
    case $1 in
    --pack) pack=$(realpath -m "$2") ;;
    --carry) carry=$(realpath -m "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --results) results=$(realpath -m "$2") ;;
    --only) selected=$2 ;;
    --device) candidates=("$2") ;;
    --limit) limit=$2 ;;
    --commit) commit=$2 ;;
    esac
    shift
    ;;
  --prebuilt) prebuilt=1 ;;
  --quick) size=(--quick) spread=25 ;;
  --dry-run) dry=1 ;;
  --list) list_steps; exit 0 ;;
  --help | -h) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
  esac
  shift
done

spread=${COMPUTE_TEST_SPREAD:-$spread}

refuse() {
  echo "tests/gpu.sh: $*; see --help" >&2
  exit 2
}
known=$(step_names)
selected=${selected:-$known}
[[ $selected =~ ^(${known//,/|})(,(${known//,/|}))*$ ]] ||
  refuse "--only takes some of $known, not '$selected'"
[[ $limit =~ ^[0-9]+$ ]] || refuse "--limit takes a number of seconds, not '$limit'"
[[ ${candidates[*]} =~ ^(cuda:0|opencl:0|cuda:0 opencl:0)$ ]] ||
  refuse "--device takes cuda:0 or opencl:0, not '${candidates[*]}'"
commit=${commit:-$(git -C "$SETUP_ROOT" describe --always --dirty 2>/dev/null || echo unknown)}
[[ $commit =~ ^[A-Za-z0-9._-]+$ ]] || refuse "--commit takes letters, digits, '.', '_' and '-', not '$commit'"

if [[ -n ${pack:-} ]]; then
  pack_packages "$pack"
  exit
fi
if [[ -n $carry ]]; then
  [[ -d $carry/usr ]] || refuse "--carry: $carry is no folder that --pack has made"
  use_carried
fi
[[ -z $dry || ! -x $build/bin/compute-info ]] || prebuilt=1

# Other folders of the build may be empty and therefore missing here.
use_prebuilt() {
  [[ -x $build/bin/compute-info ]] || refuse "--prebuilt: there is no build in $build"
  [[ -d $build/tests/bin ]] || return 0
  mkdir -p "$build/tests/scratch/docs_support_matrix"
  for program in "$build"/tests/bin/*; do mkdir -p "$build/tests/scratch/${program##*/}"; done
}

make_build() {
  local missing=() tests=ON tool
  for tool in cc cmake ninja; do command -v $tool >/dev/null || missing+=("$tool"); done
  ((${#missing[@]} == 0)) ||
    refuse "to build, ${missing[*]} must be installed (Debian: gcc, cmake, ninja-build)"
  if ! pkg-config --exists cmocka; then
    tests=OFF
    leave_out "tests and sanitizer: no cmocka, or no pkg-config (--pack and --carry bring them)"
  fi
  setup_build "$build" -DCOMPUTE_TESTS=$tests
}

# NVRTC is simulated as well, and compiles for this machine's CPU.
use_stand_in() {
  [[ -e $build/tests/cuda_stand_in/libcuda.so.1 ]] || refuse "--dry-run needs a build with tests"
  export LD_LIBRARY_PATH=$build/tests/cuda_stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export COMPUTE_CUDA_LIBRARIES=none COMPUTE_CACHE_DIR=$build/gpu-cache-dry
  unset CUDA_VISIBLE_DEVICES
  results=${results:-$build/gpu-dry-run}
}

PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
if [[ -n $prebuilt ]]; then use_prebuilt; else make_build; fi
if [[ -n $dry ]]; then
  use_stand_in
else
  use_opencl_driver
  use_torch_libraries
fi
export COMPUTE_BACKEND_PATH=$build/lib/compute COMPUTE_TUNING_FILE=none
export COMPUTE_CACHE_DIR=${COMPUTE_CACHE_DIR:-$build/gpu-cache}
mkdir -p "$COMPUTE_CACHE_DIR"
info=$("$build/bin/compute-info")
cores=$(nproc)
find_devices
if ! has_cuda && [[ ${candidates[*]} == *cuda* ]]; then
  echo "There is no cuda:0:" >&2
  sed -n '/^Modules/,/^$/p' <<<"$info" >&2
  failed=1
fi
results=${results:-$SETUP_ROOT/bench/results/$(folder_name)}

run_steps
echo "results: $results"
exit "$failed"
