# SPDX-License-Identifier: MIT
# tests/gpu.sh as far as possible without a GPU: it understands its arguments, names existing tests,
# gives the reason for a missing device, and runs its steps in miniature. Steps made for this purpose
# test its promises about files. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
export CUDA_VISIBLE_DEVICES= # also on a machine with a GPU
rm -rf "$scratch"
mkdir -p "$scratch"
out=$scratch/out

# `ctest -N` empties LastTest.log in its folder, where the ctest of this test keeps the tests'
# output. Therefore it lists the tests from a copy of their files.
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

# gives STATUS WORDS ARG…: gpu.sh with these arguments exits with the status and prints the words.
gives() {
  local status=0 expected=$1 words=$2
  shift 2
  bash "$tree/tests/gpu.sh" "$@" >"$out" 2>&1 || status=$?
  ((status == expected)) || fail "gpu.sh $* ends with status $status, not $expected:"
  grep -qF -- "$words" "$out" || fail "gpu.sh $* does not say '$words':"
}

# holds FILE WORDS: a file of the results contains the words.
holds() {
  [[ -e $results/$1 ]] || fail "there is no $1 in $(ls "$results"):"
  grep -qF -- "$2" "$results/$1" || { cat "$results/$1" >&2; fail "$1 does not say '$2':"; }
}

# ---- Arguments ----------------------------------------------------------------------------------

gives 0 'Usage: tests/gpu.sh' --help
gives 2 'Usage: tests/gpu.sh' --unknown
gives 2 "--only takes some of warm,environment,checks," --only test
gives 2 "not 'warm,test'" --only warm,test
gives 2 "--limit takes a number of seconds, not 'soon'" --limit soon
gives 2 "--device takes cuda:0 or opencl:0, not 'cpu'" --device cpu
gives 2 "--commit takes letters" --commit 'a/b'
gives 2 'is no folder that --pack has made' --carry "$scratch"
gives 2 'there is no build in' --prebuilt --build "$scratch/none"
[[ ! -e $scratch/none ]] || fail "a folder was made for a build that is missing:"

# The steps up to "products" fill a quarter of an hour minus the start of a machine.
gives 0 'warm' --list
[[ $(awk 'NR == 1 { print $1 } $1 == "products" { print $3 }' "$out" | tr '\n' ' ') == "warm 720 " ]] ||
  fail "the first steps do not fill 720 s:"

# ---- No device, and the steps in miniature ------------------------------------------------------

results=$scratch/none
gives 1 'There is no cuda:0' --prebuilt --build "$build" --only environment,checks --device cuda:0 \
  --results "$results" --commit c0
holds environment-c0.txt 'left out: cuda:0'
holds steps-c0.txt 'checks: left out: there is no cuda:0 that is a GPU'
[[ ! -e $results/checks-c0.txt ]] || fail "a step that was left out has a log:"

results=$scratch/dry
dry_run=(--dry-run --build "$build" --results "$results" --commit c1 --limit 1000)
if [[ -e $build/tests/cuda_stand_in/libcuda.so.1 ]]; then
  gives 0 'results:' "${dry_run[@]}" --only warm,checks,transfers,networks,train,forms,opencl,products,torch
  holds transfers-c1.json '"step": {"name": "transfers", "commit": "c1", "ended": "dry run, complete"'
  holds transfers-c1.json '"case": "pool_hit_1MiB"'
  holds warm-c1.txt '1 records prepared; 0 wrong'
  holds checks-c1.txt '100% tests passed'
  holds networks-c1.txt '--engines libcompute\,torch_graphs\,torch_cl'
  holds train-c1.txt 'train_transformer_b16'
  holds products-c1.txt 'bench/peers/cublaslt.py --json cublaslt.json'
  holds torch-c1.txt '--compile max-autotune-no-cudagraphs --channels-last'
  holds steps-c1.txt 'torch: dry run, complete'
  ! grep -rF -e "$build" -e "$tree" "$results" >"$out" || fail "results name folders of this machine:"
  absent=$(sed -n 's/^tests that are not in the build: *//p' "$results/checks-c1.txt")
  [[ -z $absent ]] || fail "gpu.sh names tests that there are not: $absent"
  cp -r "$results" "$results-before"
  gives 0 'networks-c1-2.txt' "${dry_run[@]}" --only networks
  for file in "$results-before"/*; do
    cmp "$file" "$results/${file##*/}" >"$out" 2>&1 || fail "a second run has changed ${file##*/}:"
  done
fi

# ---- Files and time -----------------------------------------------------------------------------

# A driver of the runner with custom steps: LIMIT STEPS.
driver=$scratch/driver.sh
cat >"$driver" <<TEXT
set -euo pipefail
SETUP_ROOT=$tree build=$build results=$scratch/runner commit=c2 dry='' limit=\$1 selected=\$2
source "$tree/tests/support/harness/gpu_runner.sh"
GRACE=2
GPU_STEPS=("first|60|quick" "partial|60|keeps its rows" "slow|2|never ends" "deaf|1|hears nothing"
  "broken|60|fails" "absent|60|cannot run" "last|60|quick")
rows() { # as a benchmark: it has written a row, and writes a second when it is told to end
  exec bash -c 'trap "echo \"{ \\\\\"rows\\\\\": 2 }\" >\$1; exit 130" TERM
    echo "{ \"rows\": 1 }" >\$1; echo begun; sleep 100 & wait' - "\$1"
}
step_first() { echo "{}" >"\$parts/first.json"; call true; }
keep() { call bash -c "\$(declare -f rows); rows \$parts/\$1.json"; call touch "$scratch/went_on"; }
step_partial() { keep partial; }
step_slow() { keep slow; }
step_deaf() { trap '' TERM; call bash -c 'trap "" TERM; echo here; while :; do sleep 0.1; done'; }
step_broken() { call false; call true; }
step_absent() { skip "no such thing"; }
step_last() { call true; }
run_steps
exit "\$failed"
TEXT
results=$scratch/runner

# One step fails, one cannot run, and two exceed their time. The others run.
status=0
bash "$driver" 60 first,slow,deaf,broken,absent,last >"$out" 2>&1 || status=$?
((status == 1)) || fail "a failed step gives status $status:"
holds first-c2.json '"ended": "complete"'
holds slow-c2.txt 'ended: time over after'
holds slow-c2.json '"rows": 2'
holds deaf-c2.txt 'here'
holds deaf-c2.txt 'ended: time over after'
holds broken-c2.txt 'status 1'
holds steps-c2.txt 'absent: left out: no such thing'
holds last-c2.txt 'ended: complete'
[[ ! -e $scratch/went_on ]] || fail "a step went on after its time was over:"
diff <(sed 's/:.*//' "$results/steps-c2.txt") <(printf '%s\n' first slow deaf broken absent last) >"$out" ||
  fail "the steps ran in another order:"

# The limit of all steps ends the second step, and the third does not begin.
bash "$driver" 4 first,partial,last >"$out" 2>&1 || fail "a step whose time is over fails the run:"
holds partial-c2.json '"rows": 2'
holds partial-c2.json '"ended": "time over"'
holds steps-c2-2.txt 'last: not started: the time is over'
holds first-c2-2.txt 'ended: complete'

# SIGTERM keeps the results so far; after SIGKILL they are in the folder of the step.
until_begun() { # PARTS
  for _ in {1..100}; do ! grep -q begun "$1/log.txt" 2>/dev/null || return 0; sleep 0.1; done
  fail "a step did not begin:"
}
bash "$driver" 60 partial,last >"$out" 2>&1 &
until_begun "$results/partial-c2-2.part"
kill -TERM $!
wait $! || fail "a run that is ended gives status $?:"
holds partial-c2-2.json '"ended": "interrupted"'
holds partial-c2-2.json '"rows": 2'
holds steps-c2-3.txt 'last: not started: interrupted'
bash "$driver" 60 first,partial >"$out" 2>&1 &
until_begun "$results/partial-c2-3.part"
kill -KILL $!
wait $! 2>/dev/null || true
for process in $(pgrep -f "$results/partial-c2-3.part"); do kill -KILL "$process" 2>/dev/null || true; done
holds first-c2-3.json '"ended": "complete"'
holds steps-c2-4.txt 'first: complete'
holds partial-c2-3.part/partial.json '"rows": 1'
bash "$driver" 4 partial >"$out" 2>&1
holds partial-c2-4.json '"rows": 2'
holds partial-c2-3.part/partial.json '"rows": 1'
