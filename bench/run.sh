#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds libcompute, runs the examples and the benchmarks, and draws the report; see --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tests/support/harness/setup.sh"
source "$SETUP_ROOT/tests/support/harness/environment.sh"

usage() {
  cat <<'TEXT'
Usage: bench/run.sh [--full] [--suite A,B] [--device D] [--isa SET] [--peers] [--goals]
                    [--strict] [--build DIR] [--help]

Installs the Debian packages that are missing, as root or where sudo needs no password. Otherwise it
prints the apt-get line, and stops if one is necessary. Unless OpenBLAS is installed, it fetches a
copy into DIR/openblas (7 MB). Then it configures, builds, installs into DIR/prefix, builds the
examples against that with pkg-config and runs them, runs compute-info and compute-bench, and makes
the report:
DIR/report/report.html, from DIR/report/bench.json. After the build, this takes two minutes on two
idle cores. No installed package is upgraded, removed or switched; what needs a package that is
missing is left out, and the report says so at its top. The exit status is 0 if all results are
right, however busy the machine is: a time that misses its goal is shown beside it. If something
fails, the last line names it.

  --full        every suite of compute-bench and all sizes
  --suite A,B   only these suites of compute-bench
  --goals       also shows the developers' goals in the report
  --strict      treats a missed goal as a failure
  --device D    the device to measure and to train on (default: the best one)
  --isa SET     the CPU instructions that libcompute uses: amx, avx512, avx2, scalar (default: the
                best)
  --peers       also compares with today's torch, ONNX Runtime, OpenVINO, oneDNN, OpenBLAS and MKL
                (bench/peers/compare.py), a dozen rows, or with --full all of them, which takes
                half an hour. They come from PyPI, some GB, into DIR/peers/venv, unless
                COMPUTE_BENCH_PYTHON names a Python that has them. Debian's libtorch is installed,
                for the comparison in one process; an installed one is used anyway. Fits are
                compared with Picasso if that Python has it (bench/peers/fit_picasso.py).
                COMPUTE_BENCH_PEERS=1 does the same
  --build DIR   build folder (default: build/ beside bench/)
TEXT
}

build=$SETUP_ROOT/build
# A quick overview: two minutes on two idle cores.
size=(--quick) rows=(--quick)
suites=overhead,elementwise,matmul,reduce,conv,pool,norm,train,memory,fit
full=0 chosen=
strict=()
goals=()
device=()
peers=${COMPUTE_BENCH_PEERS:-0}
while (($#)); do
  case $1 in
  --full) full=1 ;;
  --strict) strict=(--strict) ;;
  --goals) goals=(--goals) ;;
  --peers) peers=1 ;;
  --help | -h) usage; exit 0 ;;
  --suite | --device | --isa | --build)
    (($# > 1)) || { usage >&2; exit 2; }
    case $1 in
    --suite) chosen=$2 ;;
    --device) device=("$2") ;;
    --isa) export COMPUTE_CPU_ISA=$2 ;;
    --build) build=$(realpath -m "$2") ;;
    esac
    shift
    ;;
  *) usage >&2; exit 2 ;;
  esac
  shift
done

if ((full)); then size=() suites= rows=(); fi
select=(${chosen:+--suite "$chosen"})
if [[ -z $chosen && -n $suites ]]; then select=(--suite "$suites"); fi

step() { printf '\n== %s\n' "$*"; }

fail() {
  echo "FAILED: $*"
  exit 1
}

# left_out WHAT-AND-WHY: says it, here and in the report.
left_out() {
  echo "left out: $1"
  echo "$1" >>"$build/report/left-out.txt"
}

# checked NAME COMMAND…: runs it, and fails with its last line on stderr if it fails.
checked() {
  local name=$1 log=$build/report/step.log last status=0
  shift
  { "$@" 2>&1 1>&3 | tee "$log" >&2; } 3>&1 || status=$?
  last=$(tail -n 1 "$log")
  ((status == 0)) || fail "$name: ${last#"$name: "} (status $status)"
}

# Unsets variables that slow OpenBLAS down on processors newer than it.
clean_environment() {
  local name
  for name in OPENBLAS_CORETYPE OPENBLAS_L2_SIZE; do
    if [[ -n ${!name-} ]]; then
      echo "unset $name (was ${!name}): it makes OpenBLAS run code for another processor"
      unset "$name"
    fi
  done
}

install_packages() {
  setup_packages "${SETUP_BUILD_PACKAGES[@]}" \
    --optional "${SETUP_BENCH_PACKAGES[@]}" "${SETUP_FIT_PACKAGES[@]}" "${SETUP_PEER_PACKAGES[@]}"
  if [[ $peers == 1 ]]; then
    setup_packages --optional libtorch-dev "${SETUP_CXX_PACKAGES[@]}" python3-venv
  fi
}

build_examples() {
  local package
  package=$(find "$build/prefix" -name compute.pc -print -quit)
  PKG_CONFIG_PATH=$(dirname "$package") \
    make --no-print-directory -C "$SETUP_ROOT/docs/examples" OUT="$build/examples"
}

measure() {
  local commit
  rm -f "$build/report/bench.json" "$build/report/picasso.json"
  commit=$(git -C "$SETUP_ROOT" describe --always --dirty 2>/dev/null || true)
  "$build/bin/compute-bench" "${size[@]}" "${select[@]}" "${strict[@]}" \
    ${device[0]:+--device "${device[0]}"} ${commit:+--commit "$commit"} \
    --json "$build/report/bench.json" | tee "$build/report/bench.txt"
}

# The examples, built as a user builds them and run.
run_examples() {
  if ! setup_commands make; then
    left_out "the examples: make is not installed (Debian: make)"
    return 0
  fi
  checked "building the examples" build_examples
  checked hello "$build/examples/hello"
  checked digits "$build/examples/digits" "$SETUP_ROOT/bench/data/digits.csv.gz" "${device[@]}"
  checked digits_cnn "$build/examples/digits_cnn" ${device[0]:+--device "${device[0]}"} \
    --save "$build/report/digits.safetensors" "$SETUP_ROOT/bench/data/digits.csv.gz"
}

# optional NAME FUNCTION: runs it; where it ends with 77, its last line says why it is left out.
optional() {
  local status=0 log=$build/report/step.log
  "$2" | tee "$log" || status=$?
  ((status == 0 || status == 77)) || fail "$1: see above"
  ((status == 0)) || left_out "$1: $(tail -n 1 "$log" | sed 's/^skipped: //')"
}

compare_picasso() (
  needs "${COMPUTE_BENCH_PYTHON:-python3}" python3
  "${COMPUTE_BENCH_PYTHON:-python3}" "$SETUP_ROOT/bench/peers/fit_picasso.py" "$build/prefix/bin" \
    --json "$build/report/picasso.json"
)

# Sets `python`; the packages that are missing are left out by name (compare.py). torch's own index
# has builds without CUDA, which are a tenth of the size.
peers_environment() {
  local package
  python=${COMPUTE_BENCH_PYTHON-}
  [[ -z $python ]] || return 0
  echo "Fetching today's peers from PyPI into $build/peers/venv"
  for package in numpy onnx onnxruntime openvino scipy-openblas32 mkl; do
    python_environment "$build/peers" "$package"
  done
  python_environment "$build/peers" --extra-index-url https://download.pytorch.org/whl/cpu torch
  "$python" -c 'import numpy, onnx.helper' 2>/dev/null || skip "PyPI: $(tail -n 1 "$build/peers/log")"
}

# In a separate shell, which `skip` leaves with status 77.
compare_today() (
  peers_environment
  rm -f "$build/report/peers.json"
  "$python" "$SETUP_ROOT/bench/peers/compare.py" --build "$build" "${rows[@]}" \
    ${COMPUTE_CPU_ISA:+--isa "$COMPUTE_CPU_ISA"} --json "$build/report/peers.json"
)

draw_report() {
  local python=${COMPUTE_BENCH_PYTHON:-python3} picasso=()
  if ! setup_commands "$python"; then
    left_out "the report: python3 is not installed (Debian: python3)"
    return 0
  fi
  if [[ -s $build/report/picasso.json ]]; then picasso=(--picasso "$build/report/picasso.json"); fi
  checked "the report" "$python" "$SETUP_ROOT/bench/report.py" "$build/report/bench.json" \
    "$build/report/report.html" --left-out "$build/report/left-out.txt" "${picasso[@]}" "${goals[@]}"
  echo "report:  $build/report/report.html"
}

step "packages"
install_packages
setup_openblas "$build"
step "build"
clean_environment
# The tests need more packages than this job; a build folder already configured with them keeps them.
options=(-DCOMPUTE_BENCH=ON)
[[ -f $build/CMakeCache.txt ]] || options+=(-DCOMPUTE_TESTS=OFF)
setup_build "$build" "${options[@]}" || fail "the build: see above"
mkdir -p "$build/report" "$build/examples"
grep -vE "^(the )?(tests|documentation)" "$build/left-out.txt" >"$build/report/left-out.txt" || true

step "examples, built against $build/prefix with pkg-config"
run_examples

step "compute-info"
checked compute-info "$build/prefix/bin/compute-info"

step "compute-bench"
result=0
measure || result=$?
if [[ $peers == 1 ]]; then
  step "today's peers"
  optional "the comparison with today's peers" compare_today
  step "fits, compared with Picasso"
  optional "the comparison with Picasso" compare_picasso
fi
step "report"
if [[ -s $build/report/bench.json ]]; then
  echo "records: $build/report/bench.json"
  draw_report
fi
if ((result)); then
  last=$(tail -n 1 "$build/report/bench.txt")
  [[ $last == FAILED* ]] || last="FAILED: compute-bench ended with status $result: see above"
  echo "$last"
fi
exit "$result"
