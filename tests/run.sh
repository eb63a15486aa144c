#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs the tests of libcompute on a new or a used machine; see --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/support/harness/setup.sh"

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [--full] [--upgrade] [--build DIR] [--help] [-- CTEST-ARGUMENT…]

Installs the Debian packages that are missing, as root or where sudo needs no password. Otherwise it
prints the apt-get line, and stops if one is necessary. Then it configures, builds, installs into
DIR/prefix and runs the tests: every room
of the sources, and every backend that works here. That takes five to six minutes on two idle cores
after the build; --full takes less than an hour. Nothing that is installed is removed, switched or
upgraded; packages that would need it are left out, and their tests skipped: each with a line that
says why. The exit status is 0 if no test failed; otherwise the last line names what failed. A time
that misses its goal is printed and fails nothing.

  --full        also long tests, valgrind, and builds with sanitizers and with clang, fuzzers
  --upgrade     lets apt-get upgrade packages that the missing ones need in a newer version
  --build DIR   build folder (default: build/ beside tests/)
  --            passes what follows to ctest: -R plan, for example, selects tests by name

Where tests have many samples, a run takes a third of them, on devices that compile fewer; whole
programs run on OpenCL and with MPICH one day, on CUDA's stand-in and with Open MPI the next. With
--full the days also take turns with builds: AddressSanitizer, clang, ThreadSanitizer, the fuzzers;
and each system, form of installation and minimal Debian (tests/matrix/). COMPUTE_TEST_SEED draws
samples and turns, and is printed; by default it is made from the date. COMPUTE_TEST_SEED=0 takes
everything, which is for releases: --full then takes much longer. Every run also runs a part of both
commands with all optional packages hidden; with --full the days hide some of them one after the
other.
COMPUTE_TEST_DEVICE names the device under test (default: cpu).
TEXT
}

build=$SETUP_ROOT/build
full=0
more=()
while (($#)); do
  case $1 in
  --full) full=1 ;;
  --upgrade) SETUP_UPGRADE=1 ;;
  --build)
    (($# > 1)) || { usage >&2; exit 2; }
    build=$(realpath -m "$2")
    shift
    ;;
  --help | -h) usage; exit 0 ;;
  --) shift; more=("$@"); break ;;
  *) usage >&2; exit 2 ;;
  esac
  shift
done

# The output of a failed or skipped test: the complaint of cmocka or Python, otherwise the last
# line.
words_of() {
  awk -v name="$1" '
    /^[0-9]+\/[0-9]+ Testing: / { here = $3 == name; next }
    !here { next }
    /^<end of output>/ { here = 0; next }
    /^Output:$/ { next }
    /\[  ERROR   \] --- \[   LINE/ && !said { said = last }
    /\[  ERROR   \] --- ./ && !said { said = $0; sub(/^.*--- /, "", said) }
    /^[A-Za-z]*(Error|FAILED): / && !said { said = $0 }
    /[^-[:space:]]/ { last = $0 }
    END { print said ? said : last }' "$build/Testing/Temporary/LastTest.log"
}

optional=("${SETUP_FIT_PACKAGES[@]}" "${SETUP_MORE_TEST_PACKAGES[@]}")
if ((full)); then optional+=("${SETUP_FULL_TEST_PACKAGES[@]}"); fi
setup_packages "${SETUP_BUILD_PACKAGES[@]}" "${SETUP_TEST_PACKAGES[@]}" --optional "${optional[@]}"
setup_openblas "$build"
setup_build "$build" -DCOMPUTE_TESTS=ON
# Days are a prime apart, so that the consecutive seeds that tests use are new every day.
today=$(($(date +%s) / 86400 * 10007))
export COMPUTE_TEST_SEED=${COMPUTE_TEST_SEED:-$today}
echo "samples are drawn by COMPUTE_TEST_SEED=$COMPUTE_TEST_SEED"
select=()
if ((!full)); then
  select=(--label-regex '^default$')
elif ((COMPUTE_TEST_SEED)); then
  export COMPUTE_TEST_SAMPLE_SEED=$COMPUTE_TEST_SEED
fi
if ((COMPUTE_TEST_SEED % 2)); then
  select+=(--label-exclude '^even$')
elif ((COMPUTE_TEST_SEED)); then
  select+=(--label-exclude '^odd$')
fi
result=0
cd "$build"
# One job more than processors, for tests that wait.
ctest --parallel "$(($(nproc) + 1))" --output-on-failure --no-tests=error \
  --output-log "$build/Testing/run.log" "${select[@]}" "${more[@]}" || result=$?
# Tests that another day runs are not reported.
sed -n 's/^\t *[0-9]* - \(.*\) (Skipped)$/\1/p' "$build/Testing/run.log" | while read -r name; do
  reason=$(words_of "$name")
  [[ $reason == "skipped: turn "* ]] || echo "skipped: $name: ${reason#skipped: }"
done
if ((result)); then
  echo
  sed 's/^[0-9]*://' "$build/Testing/Temporary/LastTestsFailed.log" 2>/dev/null |
    while read -r name; do echo "FAILED: $name: $(words_of "$name")"; done
fi
exit "$result"
