# Installs the build, builds a backend module and a program against the installed headers and library
# only, and runs the program with the module's folder in COMPUTE_BACKEND_PATH. ctest starts this:
# TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
fail() { echo "$1"; exit 1; }

# Nothing of the build folder or of the caller's environment may help.
unset COMPUTE_BACKEND_PATH COMPUTE_DEVICE COMPUTE_BACKENDS LD_LIBRARY_PATH

rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(realpath "$scratch")
prefix=$scratch/prefix

quietly() { # LOG COMMAND…: shows what the command said only when it fails
  local log=$scratch/$1.log
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; fail "failed: $*"; }
}

quietly install cmake --install "$build" --prefix "$prefix"
# The sources are copied, so that no relative include reaches into the tree.
cp -r "$tree/tests/external_backend" "$scratch/source"
quietly configure cmake -S "$scratch/source" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_C_COMPILER="${CC:-cc}"
quietly build cmake --build "$scratch/build"

module=$scratch/build/modules/libcompute-external.so
symbols=$(nm -D --defined-only "$module" | awk '{print $3}')
[ "$symbols" = compute_backend_entry ] || fail "the module exports more than its entry: $symbols"
if readelf -d "$module" | grep -q 'libcompute\.so'; then fail "the module is linked to libcompute"; fi

COMPUTE_BACKEND_PATH=$scratch/build/modules "$scratch/build/driver"
