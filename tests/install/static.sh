# SPDX-License-Identifier: MIT
# libcompute.a: hello.c, linked to it by pkg-config, by CMake and without a loader, uses the built-in
# CPU backend and opens no module for it. Private names of the library do not clash with the
# program's. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 folder=$2/static scratch=$3
example=$tree/docs/examples/hello.c
source "$tree/tests/support/harness/share.sh"
fail() { echo "$1"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -50 "$scratch/log"; fail "failed: $*"; }; }
rm -rf "$scratch"
mkdir -p "$scratch" "$folder"
unset COMPUTE_BACKEND_PATH COMPUTE_BACKENDS COMPUTE_DEVICE

quietly cmake -S "$tree" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_FLAGS_RELEASE=-O0 -DCOMPUTE_CPU_OPTIMISATION=-O0 -DCMAKE_C_COMPILER="$CC" -DBUILD_SHARED_LIBS=OFF -DCOMPUTE_TESTS=OFF \
  -DCOMPUTE_BENCH=OFF -DCOMPUTE_CPU_VECTORS=OFF
quietly cmake --build "$folder"
prefix=$scratch/prefix
quietly cmake --install "$folder" --prefix "$prefix"
library=$(find "$prefix" -name libcompute.a)
[[ -n $library ]] || fail "libcompute.a is not installed"
[[ -z $(find "$prefix" -name 'libcompute.so*' -o -name libcompute-cpu.so) ]] ||
  fail "a shared library is installed, too"
private=$(nm -g --defined-only "$library" | awk 'NF == 3 && $3 !~ /^compute_/ { print $3 }')
[[ -z $private ]] || fail "libcompute.a shows private names: $private"

export PKG_CONFIG_PATH=${library%/*}/pkgconfig
# shellcheck disable=SC2046
"$CC" -Wall -Werror "$example" $(pkg-config --static --cflags --libs compute) -o "$scratch/hello"
"$scratch/hello" | grep 'on device' || fail "hello (pkg-config) does not work"
COMPUTE_LOG=debug "$scratch/hello" 2>&1 | grep "module cpu (built in): loaded" ||
  fail "the CPU backend comes from elsewhere"

quietly cmake -S "$tree/tests/install/consumer" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  -DEXAMPLE="$example" -DCMAKE_C_COMPILER="$CC"
quietly cmake --build "$scratch/cmake"
quietly "$scratch/cmake/consumer"

# Without a loader, neither a module nor OpenBLAS can be opened.
# shellcheck disable=SC2046
if "$CC" -static "$example" $(pkg-config --static --cflags --libs compute) -o "$scratch/alone" \
  2>"$scratch/log"; then
  "$scratch/alone" | grep -q 'on device cpu' || fail "hello does not work without a loader"
  COMPUTE_BACKEND_PATH=$(dirname "$(find "$prefix" -name libcompute-null.so)") COMPUTE_LOG=debug \
    "$scratch/alone" 2>&1 | grep 'linked statically and cannot load modules' ||
    fail "a module without a loader: not a word"
else
  echo "not linked without a loader: $(tail -1 "$scratch/log")"
fi
