# SPDX-License-Identifier: MIT
# tests/gpu.sh as far as it goes without a GPU: it knows what it is asked for, names tests that there
# are, and says why there is no device. ctest starts this: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
export CUDA_VISIBLE_DEVICES= # also on a machine with a GPU
rm -rf "$scratch"
mkdir -p "$scratch"
out=$scratch/out

# `ctest -N` empties LastTest.log of its folder, where the ctest that runs this test keeps what tests
# say. So it lists the tests from a copy of their files.
mkdir -p "$scratch/listed" "$scratch/tools"
(cd "$build" && find . -maxdepth 3 -name CTestTestfile.cmake -exec cp --parents {} "$scratch/listed" \;)
cat >"$scratch/tools/ctest" <<TOOL
#!/bin/bash
[[ \$* != -N ]] || cd "$scratch/listed"
exec "$(command -v ctest)" "\$@"
TOOL
chmod +x "$scratch/tools/ctest"
export PATH=$scratch/tools:$PATH

fail() { echo "$*" >&2; cat "$out" >&2; exit 1; }

# gives STATUS WORDS ARG…: gpu.sh with these arguments ends with the status and says the words.
gives() {
  local status=0 expected=$1 words=$2
  shift 2
  bash "$tree/tests/gpu.sh" "$@" >"$out" 2>&1 || status=$?
  ((status == expected)) || fail "gpu.sh $* ends with status $status, not $expected:"
  grep -qF -- "$words" "$out" || fail "gpu.sh $* does not say '$words':"
}

gives 0 'Usage: tests/gpu.sh' --help
gives 2 'Usage: tests/gpu.sh' --unknown
gives 2 "--only takes some of tests,sanitizer,bench,peers, not 'test'" --only test
gives 2 "--limit takes a number of seconds, not 'soon'" --limit soon
gives 2 "--device takes cuda:0 or opencl:0, not 'cpu'" --device cpu
gives 2 'is no folder that --pack has made' --carry "$scratch"
gives 2 'there is no build in' --prebuilt --build "$scratch/none"
[[ ! -e $scratch/none ]] || fail "a folder was made for a build that is missing:"

gives 1 'There is no cuda:0' --prebuilt --build "$build" --only tests --device cuda:0 \
  --results "$scratch/results"
! grep -F 'not in the build' "$out" || fail "gpu.sh names tests that there are not:"
grep -q '^left out: cuda:0' "$scratch/results/environment.txt" || fail "nothing says what is left out:"
