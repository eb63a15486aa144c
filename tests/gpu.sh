#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests and measures libcompute on a machine with an NVIDIA GPU; see --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/support/harness/setup.sh"

# What a machine with CUDA, gcc, CMake and ninja may lack, as Debian packages to be unpacked.
CARRIED=(pkgconf pkgconf-bin libpkgconf3 libjansson4 libjansson-dev libmd0 libmd-dev zlib1g zlib1g-dev
  libcmocka0 libcmocka-dev libopenblas0-pthread libgfortran5 ocl-icd-libopencl1 ocl-icd-opencl-dev
  opencl-c-headers opencl-clhpp-headers)

# Tests that take the device from COMPUTE_TEST_DEVICE and need no stand-in for its driver; and of their
# programs those that compute-sanitizer watches, which makes them slower by a factor of ten to a
# hundred.
TESTS=(operations_{cast,convolution,network,network_gradients,operand_kinds,elementwise,gradients}
  operations_{indexed,matmul,quantized,random_graphs,recurrent,reduction,row,sources,structural}
  operations_{typed_graphs,volume,eager,large} plan_{run,bindings,call,index_errors,training,endurance}
  fit_{run,frames,graph,spots} graph_{gradients,gradient_cases,optimizer} eager_eager job_job
  tensor_{tensor,tensor_copy,tensor_fill,tensor_view,dlpack} batch_{batch,misuse,progress,steps}
  nn_{initialise,layers,networks,weights,edges}
  train_{call,dataset,faults,trainer,replicas,checkpoint} threads_plans public_use)
WATCHED=(plan_run operations_matmul operations_network operations_reduction operations_row
  operations_indexed)
TOOLS=(memcheck racecheck initcheck synccheck)
WATCH_SECONDS=40

usage() {
  cat <<'TEXT'
Usage: tests/gpu.sh [--build DIR] [--prebuilt] [--carry DIR] [--results DIR] [--only STEPS]
                    [--device D] [--suite A,B] [--limit SECONDS] [--quick] [--help]
       tests/gpu.sh --pack DIR

Builds; runs the operation suite and the tests of plans on every GPU backend that works here (cuda:0,
opencl:0 if it is a GPU); has compute-sanitizer watch some of them on cuda:0; measures, also PyTorch if
python3 has it; and writes bench/results/<gpu>/: one JSON file for each device and for PyTorch, what
the tests and the sanitizer said, and the environment, without this machine's paths. What cannot be
done is left out, and said. The machine needs a C compiler, CMake and ninja; other packages that it
lacks can be carried there:

  --pack DIR     on a Debian machine: downloads the packages that another machine may lack and unpacks
                 them into DIR, to be carried there
  --carry DIR    uses the packages unpacked in DIR
  --build DIR    build folder (default: build-gpu/ beside tests/)
  --prebuilt     the build folder was made on another machine, at the same path: neither configures
                 nor builds
  --results DIR  instead of bench/results/<gpu>
  --only STEPS   only these of tests,sanitizer,bench,peers, with ',' between them; it builds in any
                 case
  --device D     only this of cuda:0 and opencl:0
  --suite A,B    only these suites of compute-bench
  --limit S      ends the tests, the benchmarks of a device and those of PyTorch after so many seconds
                 each; what they have found by then is kept
  --quick        the quick benchmarks, and fewer samples for each test; COMPUTE_TEST_SPREAD=N: one
                 sample in N

The exit status is 0 if there is cuda:0 and every test that ran has passed.
TEXT
}

build=$SETUP_ROOT/build-gpu carry= results= size=() spread=5 steps=tests,sanitizer,bench,peers prebuilt=
candidates=(cuda:0 opencl:0) limit=0 # 0: none
while (($#)); do
  case $1 in
  --pack | --carry | --build | --results | --only | --device | --suite | --limit)
    (($# > 1)) || { usage >&2; exit 2; }
    case $1 in
    --pack) pack=$(realpath -m "$2") ;;
    --carry) carry=$(realpath -m "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --results) results=$(realpath -m "$2") ;;
    --only) steps=$2 ;;
    --device) candidates=("$2") ;;
    --suite) size+=(--suite "$2") ;;
    --limit) limit=$2 ;;
    esac
    shift
    ;;
  --prebuilt) prebuilt=1 ;;
  --quick) size+=(--quick) spread=25 ;;
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
[[ $steps =~ ^(tests|sanitizer|bench|peers)(,(tests|sanitizer|bench|peers))*$ ]] ||
  refuse "--only takes some of tests,sanitizer,bench,peers, not '$steps'"
[[ $limit =~ ^[0-9]+$ ]] || refuse "--limit takes a number of seconds, not '$limit'"
[[ ${candidates[*]} =~ ^(cuda:0|opencl:0|cuda:0 opencl:0)$ ]] ||
  refuse "--device takes cuda:0 or opencl:0, not '${candidates[*]}'"

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
  # As root, apt-get would download as a user who cannot write here, and warn of that.
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "${CARRIED[@]}") ||
    refuse "--pack: these packages cannot be downloaded; apt-get update may help"
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
  architecture=$(cc -print-multiarch 2>/dev/null || true)
  local libraries=$carry/usr/lib/${architecture:-$(uname -m)-linux-gnu}
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
if [[ -n $carry ]]; then
  [[ -d $carry/usr ]] || refuse "--carry: $carry is no folder that --pack has made"
  use_carried
fi
if [[ -n $prebuilt ]]; then
  [[ -x $build/bin/compute-info ]] || refuse "--prebuilt: there is no build in $build"
else
  missing=()
  for tool in cc cmake ninja; do command -v $tool >/dev/null || missing+=("$tool"); done
  ((${#missing[@]} == 0)) ||
    refuse "to build, ${missing[*]} must be installed (Debian: gcc, cmake, ninja-build)"
fi

# A container may have NVIDIA's OpenCL driver without the file that registers it.
use_opencl_driver() {
  local library
  [[ -n ${OCL_ICD_VENDORS-} ]] && return
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

# PyTorch from a package brings NVIDIA's libraries, in folders that the loader does not know.
use_torch_libraries() {
  local folder
  while read -r folder; do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  done < <(python3 -c '
import glob, importlib.util
spec = importlib.util.find_spec("nvidia")
for place in spec.submodule_search_locations if spec else ():
    print("\n".join(sorted(glob.glob(place + "/*/lib"))))' 2>/dev/null | sed '/^$/d')
  [[ -z ${LD_LIBRARY_PATH-} ]] || export LD_LIBRARY_PATH
}
use_torch_libraries

PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
tests=ON
if [[ -n $prebuilt ]]; then
  if ! command -v ctest >/dev/null || [[ ! -d $build/tests/bin ]]; then
    tests=OFF
    leave_out "tests and sanitizer: no ctest, or none were built"
  fi
  # A carried build may lack empty folders.
  mkdir -p "$build/tests/scratch/docs_support_matrix"
  for program in "$build"/tests/bin/*; do mkdir -p "$build/tests/scratch/${program##*/}"; done
else
  pkg-config --exists cmocka || {
    tests=OFF
    leave_out "tests and sanitizer: no cmocka, or no pkg-config (--pack and --carry bring them)"
  }
  setup_build "$build" -DCOMPUTE_TESTS=$tests
fi

export COMPUTE_BACKEND_PATH=$build/lib/compute COMPUTE_TUNING_FILE=none
info=$("$build/bin/compute-info")

# A fact that compute-info tells of a device.
fact() {
  awk -v device="$1" -v fact="$2" '
    /^  [^ ]/ { here = $1 == device }
    here && $1 == fact { sub(/^ *[^ ]+ +/, ""); print; exit }' <<<"$info"
}

devices=() failed=0
for device in "${candidates[@]}"; do
  type=$(fact "$device" type)
  if [[ -n $type && $type != CPU ]]; then devices+=("$device"); else leave_out "$device: see compute-info"; fi
done
has_cuda() { [[ " ${devices[*]-} " == *" cuda:0 "* ]]; }
if ! has_cuda && [[ ${candidates[*]} == *cuda* ]]; then
  echo "There is no cuda:0:" >&2
  sed -n '/^Modules/,/^$/p' <<<"$info" >&2
  failed=1
fi
model=$(fact "${devices[0]-}" model)
slug=$(tr 'A-Z ' 'a-z-' <<<"${model:-no-gpu}" | tr -cd 'a-z0-9-')
results=${results:-$SETUP_ROOT/bench/results/$slug}
mkdir -p "$results"
sed -n '/^libcompute/p;/^Devices/,/^$/p' <<<"$info" >"$results/compute-info.txt"
cores=$(nproc)

# Nothing may be left to the CPU. Tests that name another device or a stand-in are not of these.
run_tests() {
  local device=$1 log=$results/tests-${1%:*}.txt stop=()
  ((limit == 0)) || stop=(--stop-time "$(date -d "+$limit seconds" +%T)")
  COMPUTE_TEST_DEVICE=$device COMPUTE_TEST_STRICT=1 COMPUTE_TEST_SPREAD=$spread \
    env -C "$build" ctest --parallel "$(((cores + 1) / 2))" --output-on-failure "${stop[@]}" \
    -R "^($(IFS='|' && echo "${TESTS[*]}"))\$" >"$log" 2>&1
}

run_conformance() {
  COMPUTE_TEST_SPREAD=$spread timeout --foreground "$limit" "$build/bin/compute-conformance" "$1" \
    >"$results/conformance-${1%:*}.txt" 2>&1
}

# All devices at the same time: nothing is measured.
run_all_tests() {
  local device job jobs=() absent
  absent=$(comm -23 <(printf '%s\n' "${TESTS[@]}" | sort) \
    <(env -C "$build" ctest -N | sed -n 's/^ *Test *#[0-9]*: //p' | sort))
  [[ -z $absent ]] || leave_out "tests that are not in the build:" $absent
  for device in ${devices[@]+"${devices[@]}"}; do
    run_tests "$device" & jobs+=($!)
    run_conformance "$device" & jobs+=($!)
  done
  for job in ${jobs[@]+"${jobs[@]}"}; do
    wait "$job" || { (($? == 124)) && leave_out "compute-conformance: longer than $limit s"; } || failed=1
  done
  for device in ${devices[@]+"${devices[@]}"}; do
    tail -4 "$results/tests-${device%:*}.txt"
    tail -1 "$results/conformance-${device%:*}.txt"
  done
}

# A tool and a program, or the program alone; its log goes to a file of its own. Few samples: a launch
# costs a tool milliseconds.
watch() {
  local tool=$1 name=$2 status=0 command=()
  [[ $tool == none ]] || command=(compute-sanitizer --tool "$tool" --error-exitcode 9)
  if [[ $name == compute-conformance ]]; then
    command+=("$build/bin/$name" cuda:0)
  else
    command+=("$build/tests/bin/$name")
  fi
  (cd "$scratch" && COMPUTE_TEST_DEVICE=cuda:0 COMPUTE_TEST_SPREAD=200 timeout "$WATCH_SECONDS" \
    "${command[@]}") >"$scratch/$tool-$name.txt" 2>&1 || status=$?
  echo "$status" >"$scratch/$tool-$name.status"
}

# Programs and tools run beside each other. The kernels are compiled beforehand, once for all tools.
run_sanitizer() {
  local tool name status log names=("${WATCHED[@]}" compute-conformance) running=0
  command -v compute-sanitizer >/dev/null || { leave_out "compute-sanitizer: not installed"; return 0; }
  scratch=$build/scratch_sanitizer
  export COMPUTE_CACHE_DIR=$build/cache_sanitizer
  rm -rf "$scratch"
  mkdir -p "$COMPUTE_CACHE_DIR" "$scratch"
  for tool in none "${TOOLS[@]}"; do
    for name in "${names[@]}"; do
      if ((running >= cores)); then wait -n || true; else ((++running)); fi
      watch "$tool" "$name" &
    done
    if [[ $tool == none ]]; then wait; running=0; fi
  done
  wait
  unset COMPUTE_CACHE_DIR
  for tool in "${TOOLS[@]}"; do
    log=$results/sanitizer-$tool.txt
    for name in "${names[@]}"; do
      echo "== $name"
      cat "$scratch/$tool-$name.txt"
    done >"$log"
    for name in "${names[@]}"; do
      status=$(<"$scratch/$tool-$name.status")
      case $status in
      0 | 77) ;;
      124) leave_out "compute-sanitizer $tool of $name: longer than $WATCH_SECONDS s" ;;
      *) failed=1; echo "compute-sanitizer $tool of $name: status $status, see $log" >&2 ;;
      esac
    done
    echo "$tool: $(grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$log" | sort | uniq -c || true)"
  done
}

# A program that keeps what it has if the time is over, and then ends with status 130 unless that was
# wrong (143: it had nothing yet). In the foreground, so that Ctrl-C reaches it.
limited() {
  local what=$1 status=0
  shift
  timeout --foreground --preserve-status --kill-after=20 "$limit" "$@" || status=$?
  case $status in
  0) ;;
  130 | 143) leave_out "$what: longer than $limit s" ;;
  *) failed=1 ;;
  esac
}

run_bench() {
  limited "compute-bench on $1" "$build/bin/compute-bench" "${size[@]}" --device "$1" \
    ${commit:+--commit "$commit"} --json "$results/bench-${1%:*}.json"
}

run_peers() {
  if ! python3 -c 'import torch; torch.zeros(1, device="cuda")' 2>/dev/null; then
    leave_out "PyTorch: python3 has none with CUDA"
    return 0
  fi
  limited "the rest of PyTorch" \
    python3 "$SETUP_ROOT/bench/peers/torch_gpu.py" --json "$results/torch.json"
}

# Results are kept with the sources: where they were made is nobody's business.
remove_paths() {
  local home=${HOME:-/}
  sed -i "s|$build|build|g; s|$SETUP_ROOT|.|g" "$results"/*
  [[ $home == / ]] || sed -i "s|$home/|~/|g" "$results"/*
}

commit=$(git -C "$SETUP_ROOT" describe --always --dirty 2>/dev/null || true)
if wanted tests && [[ $tests == ON ]]; then run_all_tests; fi
if wanted sanitizer && [[ $tests == ON ]] && has_cuda; then run_sanitizer; fi
if wanted bench; then for device in ${devices[@]+"${devices[@]}"}; do run_bench "$device"; done; fi
if wanted peers && has_cuda; then run_peers; fi

{
  date -u +%Y-%m-%d
  echo "commit: ${commit:-unknown}"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv \
    2>/dev/null || echo "no nvidia-smi"
  { cc --version 2>/dev/null || echo "no C compiler"; } | head -1
  printf 'left out: %s\n' "${left_out[@]:-nothing}"
} >"$results/environment.txt" 2>&1
remove_paths
echo "results: $results"
exit "$failed"
