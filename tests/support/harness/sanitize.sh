# SPDX-License-Identifier: MIT
# Builds the tests of one label with sanitizers, and runs them. ctest starts this: TREE BUILD_DIR
# SCRATCH_DIR SANITIZERS LABEL FOLDER SHARES [CMAKE-ARGUMENT…]. The folder is kept, so a second run
# is fast. The tests in SHARES parts, and the CPU backend's instruction sets, alternate daily
# (share.sh).
#
# -O1 keeps the build short and the reports readable. PoCL's programs come from the ordinary build's
# cache. OpenBLAS is not instrumented; libcompute calls it single-threaded, so it hides no error of
# libcompute.
set -euo pipefail
tree=$1 build=$2/$6 pocl_cache=$2/tests/pocl_cache sanitizers=$4 label=$5 shares=$7
shift 7
source "$tree/tests/support/harness/share.sh"

mkdir -p "$build"
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 \
  -DCOMPUTE_SANITIZE="$sanitizers" -DCOMPUTE_TESTS=ON -DCOMPUTE_BENCH=OFF \
  -DCOMPUTE_CPU_VECTORS="$(share_vectors)" -DCOMPUTE_CPU_OPTIMISATION=-O1 \
  -DCOMPUTE_TEST_POCL_CACHE="$pocl_cache" \
  -DCMAKE_C_COMPILER="$CC" "$@" >"$build.log" ||
  { cat "$build.log"; exit 1; }
# A test is named like the target of its program.
cd "$build"
mapfile -t targets < <(ctest --show-only --label-regex "^$label\$" 2>/dev/null |
  sed -n 's/^ *Test *#[0-9]*: //p' | share_lines "$shares")
cmake --build "$build" --target "${targets[@]}"
exec ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --label-regex "^$label\$" --tests-regex "^($(IFS='|'; echo "${targets[*]}"))\$"
