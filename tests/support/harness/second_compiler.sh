# SPDX-License-Identifier: MIT
# Builds everything, tests included, with clang and warnings as errors, and runs the tests of the
# arithmetic, which differs most between compilers. ctest starts this: TREE BUILD_DIR SCRATCH_DIR.
# Loops of the CPU backend are optimised as for users, the rest little; its instruction sets
# alternate daily (share.sh).
set -euo pipefail
tree=$1 build=$2/clang
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"

needs clang clang
mkdir -p "$build"
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 \
  -DCMAKE_C_COMPILER=clang -DCOMPUTE_CPU_VECTORS="$(share_vectors)" \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCOMPUTE_TESTS=ON -DCOMPUTE_BENCH=ON >"$build.log" ||
  { cat "$build.log"; exit 1; }
cmake --build "$build"
cd "$build"
exec ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --label-regex '^quick$' --tests-regex '^(cpu|operations|kernel)_'
