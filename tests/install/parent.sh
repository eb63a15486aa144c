# SPDX-License-Identifier: MIT
# Builds libcompute as a part of another project, and only the program that needs it. The program runs
# in the build folder and installed, with the shared library and with the static one. Started by
# ctest: TREE BUILD_DIR SCRATCH_DIR. The folder is kept, so a second run is fast.
set -euo pipefail
tree=$1 build=$2/parent scratch=$3
source "$tree/tests/support/harness/share.sh"
unset COMPUTE_BACKEND_PATH LD_LIBRARY_PATH
fail() { echo "$1"; exit 1; }

configure() { # [ARGUMENT…]: portable loops without optimisation, which is quick to build
  cmake -S "$tree/tests/install/parent" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$CC" \
    -DCOMPUTE_TREE="$tree" -DEXAMPLE="$tree/docs/examples/hello.c" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCOMPUTE_CPU_VECTORS=OFF -DCOMPUTE_CPU_OPTIMISATION=-O0 "$@" >"$build.log" 2>&1 ||
    { cat "$build.log"; fail "cmake $*"; }
}

run() { # TARGET: builds it, and runs the program
  cmake --build "$build" --target "$1" >"$build.log" 2>&1 || { cat "$build.log"; fail "no $1"; }
  "$build/app" || fail "the program does not run in the build folder ($1)"
}

installed() { # NAME: installs, and runs without the build folder
  local prefix=$scratch/$1
  cmake --install "$build" --prefix "$prefix" >"$build.log" 2>&1 ||
    { cat "$build.log"; fail "no installation"; }
  mv "$build" "$build.away"
  "$prefix/bin/app" || { mv "$build.away" "$build"; fail "the installed program does not run ($1)"; }
  mv "$build.away" "$build"
}

rm -rf "$scratch"
mkdir -p "$scratch" "$build"
configure -DCOMPUTE_SHARED=ON -DCOMPUTE_INSTALL=ON
run app # the modules are built with the library
[[ ! -e $build/_deps/compute-build/bin ]] || fail "programs of libcompute were built"
run all
installed shared
[[ -f $scratch/shared/lib/compute/libcompute-cpu.so ]] || fail "the CPU module is not installed"

configure -DCOMPUTE_SHARED=OFF -DCOMPUTE_INSTALL=OFF
run app
installed static
[[ $(find "$scratch/static" -type f) == "$scratch/static/bin/app" ]] ||
  fail "more than the program is installed: $(find "$scratch/static" -type f)"
