# SPDX-License-Identifier: MIT
# Builds the fuzzers with clang and the sanitizers, and runs each for a while, starting from the
# tree's corpus. ctest starts this: TREE BUILD_DIR SCRATCH_DIR [SECONDS]. New inputs go to the
# scratch folder, and so does an input that finds an error. COMPUTE_FUZZ_SECONDS sets the time for
# each fuzzer. By default, each makes at most 10,000 runs (500 if a run is a whole model) from the
# same seed, and all share one minute of one processor. This suffices to run the corpus and to find
# a change's errors. A fast machine tries no inputs that a slower one has not tried. Longer runs,
# each with another seed, are for changes to a reader. Models are small: the CPU backend's loops are
# not optimised, because clang would need minutes to instrument and optimise them.
set -euo pipefail
source "$1/tests/support/harness/needs.sh"
source "$1/tests/support/harness/share.sh"
tree=$1 build=$2/fuzz scratch=$3 seconds=${COMPUTE_FUZZ_SECONDS:-${4:-}} seed=0 runs=-1

needs clang clang
mkdir -p "$build"
clang -fsanitize=fuzzer,address,undefined -x c - -o "$build.probe" 2>"$build.log" <<'PROGRAM' ||
int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) { return data && size > 9; }
PROGRAM
  skip "clang lacks its fuzzer (Debian: libclang-rt-dev of its version): $(head -n 1 "$build.log")"
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 \
  -DCMAKE_C_COMPILER=clang -DCOMPUTE_SANITIZE=fuzzer-no-link,address,undefined \
  -DCOMPUTE_TESTS=OFF -DCOMPUTE_BENCH=OFF -DCOMPUTE_FUZZ=ON -DCOMPUTE_CPU_VECTORS=OFF \
  -DCOMPUTE_CPU_OPTIMISATION=-O0 >"$build.log" ||
  { cat "$build.log"; exit 1; }
cmake --build "$build" --target fuzzers

if [[ -z $seconds ]]; then
  seed=1 runs=10000
  fuzzers=("$build"/bin/fuzz_*)
  seconds=$((60 / ${#fuzzers[@]}))
  ((seconds >= 5)) || seconds=5
fi

export COMPUTE_BACKEND_PATH=$build/lib/compute
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1
fuzz() {
  local name=$1 corpus=$tree/tests/fuzz/corpus/${1#fuzz_} found=$scratch/$1
  mkdir -p "$found"
  local folders=("$found")
  [[ ! -d $corpus ]] || folders+=("$corpus")
  local most=$runs
  [[ $name != fuzz_model_run || $runs == -1 ]] || most=500
  "$build/bin/$name" -seed="$seed" -runs="$most" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 \
    -max_len=4096 \
    -print_final_stats=1 -artifact_prefix="$found/" "${folders[@]}" >"$found.log" 2>&1 ||
    { tail -40 "$found.log"; echo "$name found something: see $found"; return 1; }
  printf '%s: %s runs without a finding\n' "$name" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$found.log")"
}
export -f fuzz
export tree build scratch seconds seed runs
printf '%s\0' "$build"/bin/fuzz_* | xargs -0 -n1 basename |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
