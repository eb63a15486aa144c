# Set-up of a fresh Debian machine, shared by tests/run.sh and bench/run.sh: source this file.
#
#   setup_packages NAME…           installs the Debian packages that are missing
#   setup_build BUILD_DIR [ARG…]   configures (ARG… go to cmake), builds, installs into
#                                  BUILD_DIR/prefix
#
# The package lists stand here and nowhere else. Both functions do nothing that is done already.

# Where ccache is installed, all builds of a run use it, those that tests start included.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
fi

SETUP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# What libcompute and its programs are built with, and the BLAS that the CPU backend opens when it
# runs. compute-fit can be built without the last four, and then lacks what they are for.
SETUP_BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config zlib1g-dev libmd-dev libjansson-dev
  ocl-icd-opencl-dev libopenblas0-pthread libtiff-dev libhdf5-dev libyaml-dev libpng-dev)

# What the tests need besides: cmocka, a C++ compiler for the headers, a second C compiler with its
# sanitizers and fuzzer (which clang does not bring along), python3 for checking JSON, valgrind.
# Python's modules and the tools in the last two lines look at the files that compute-fit reads and
# writes.
SETUP_TEST_PACKAGES=(libcmocka-dev g++ make clang libclang-rt-14-dev python3 valgrind
  pocl-opencl-icd oclgrind libclblast1 python3-h5py python3-tifffile python3-yaml libtiff-tools
  hdf5-tools)

setup_packages() {
  local name missing=() admin=()
  if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system; what these packages hold is taken to be there: $*" >&2
    return 0
  fi
  for name in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed ||
      missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if (($(id -u) != 0)); then
    if ! sudo -n true 2>/dev/null; then
      echo "Missing Debian packages. Install them, then start this again:" >&2
      echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
    admin=(sudo -n)
  fi
  echo "Installing ${missing[*]}"
  "${admin[@]}" apt-get -qq update &&
    "${admin[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -qq install -y --no-install-recommends "${missing[@]}"
}

setup_build() {
  local build=$1
  shift
  cmake -S "$SETUP_ROOT" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$build/prefix" "$@" &&
    cmake --build "$build" &&
    cmake --install "$build" >"$build/install.log"
}
