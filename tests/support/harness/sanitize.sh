# SPDX-License-Identifier: MIT
# Builds the tests of one label with sanitizers, and runs them. ctest starts this:
# TREE BUILD_DIR SCRATCH_DIR SANITIZERS LABEL FOLDER [CMAKE-ARGUMENT…]. The folder stays, so a second
# run is quick.
#
# -O1 keeps the build short and the reports readable. PoCL's programs are those of the ordinary build.
# OpenBLAS is not instrumented; libcompute enters it single-threaded, so nothing of ours hides there.
set -euo pipefail
tree=$1 build=$2/$6 pocl_cache=$2/tests/pocl_cache sanitizers=$4 label=$5
shift 6

mkdir -p "$build"
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 \
  -DCOMPUTE_SANITIZE="$sanitizers" -DCOMPUTE_TESTS=ON -DCOMPUTE_BENCH=OFF \
  -DCOMPUTE_TEST_POCL_CACHE="$pocl_cache" -DCMAKE_C_COMPILER="$CC" "$@" >"$build.log" ||
  { cat "$build.log"; exit 1; }
# A test is called as the target that makes its program.
cd "$build"
mapfile -t targets < <(ctest --show-only --label-regex "^$label\$" 2>/dev/null |
  sed -n 's/^ *Test *#[0-9]*: //p')
cmake --build "$build" --target "${targets[@]}"
exec ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --label-regex "^$label\$"
