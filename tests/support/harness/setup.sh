# SPDX-License-Identifier: MIT
# Set-up of a fresh Debian machine, shared by tests/run.sh and bench/run.sh: source this file.
#
#   setup_packages NAME… [--optional NAME…]
#                                  installs the Debian packages that are missing; optional ones that
#                                  cannot be had without an upgrade are left out
#   setup_openblas BUILD_DIR       lets what is started from here on find OpenBLAS
#   setup_build BUILD_DIR [ARG…]   configures (ARG… go to cmake), builds, installs into
#                                  BUILD_DIR/prefix
#
# The package lists are here and nowhere else. All functions do nothing that is done already, and
# nothing that is installed is removed or replaced, nor upgraded, unless SETUP_UPGRADE is 1.

# Where ccache is installed, all builds of a run use it, those that tests start included.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
fi

SETUP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)

# What libcompute and its programs are built with, and what OpenBLAS needs (setup_openblas).
SETUP_BUILD_PACKAGES=(libc6-dev cmake ninja-build pkg-config zlib1g-dev libmd-dev libjansson-dev
  ocl-icd-opencl-dev libgfortran5)
# compute-fit and compute-run are built without those of these that are missing, and then lack what
# they are for.
SETUP_FIT_PACKAGES=(libtiff-dev libhdf5-dev libyaml-dev libpng-dev)
# Without this, the report of bench/run.sh has tables and no pictures.
SETUP_REPORT_PACKAGES=(python3-matplotlib)
# Installed beside another compiler, it would become the machine's cc.
command -v cc >/dev/null || SETUP_BUILD_PACKAGES+=(gcc)

# What the tests need besides: cmocka, a C++ compiler for the headers, a second C compiler with its
# sanitizers and fuzzer (which clang does not bring along), python3 for checking JSON, valgrind.
SETUP_TEST_PACKAGES=(libcmocka-dev make clang libclang-rt-dev python3 valgrind pocl-opencl-icd)
# Tests that need one of these are skipped where it is missing. The Python modules and the tools look
# at the files that compute-fit reads and writes; ONNX's test data are models. Transports are built for
# the MPIs that are installed.
SETUP_MORE_TEST_PACKAGES=(oclgrind libclblast1 python3-h5py python3-tifffile python3-yaml python3-cffi
  libtiff-tools hdf5-tools libonnx-testdata openmpi-bin libopenmpi-dev mpich libmpich-dev
  "${SETUP_REPORT_PACKAGES[@]}")
# For tests/run.sh --full: packages of libcompute, builds for another C library and another processor,
# the documentation site, the README in a minimal Debian, and onnx from PyPI.
SETUP_FULL_TEST_PACKAGES=(debhelper dpkg-dev lintian git xz-utils musl-tools gcc-aarch64-linux-gnu
  libc6-dev-arm64-cross qemu-user doxygen debootstrap python3-venv)
SETUP_CXX_PACKAGES=()
command -v c++ >/dev/null || SETUP_CXX_PACKAGES=(g++)
SETUP_TEST_PACKAGES+=("${SETUP_CXX_PACKAGES[@]}")

# What apt-get would do for these packages, a line for each: "new NAME VERSION" or "upgrade NAME
# VERSION". Fails where a package is unknown or another one would have to go.
setup_plan() {
  local steps
  steps=$(LC_ALL=C apt-get -s install --no-upgrade --no-remove --no-install-recommends "$@") &&
    awk '$1 == "Inst" && $3 ~ /^\[/ { print "upgrade", $2, substr($4, 2) }
         $1 == "Inst" && $3 !~ /^\[/ { print "new", $2, substr($3, 2) }' <<<"$steps"
}

setup_upgrades() { # PLAN: the names of what would be upgraded
  awk '$1 == "upgrade" { printf " %s", $2 }' <<<"$1"
}

# Says what a plan does. Fails if it is more than to install.
setup_announce() {
  local plan=$1 upgrades names sizes
  upgrades=$(setup_upgrades "$plan")
  names=$(awk '{ printf " %s", $2 }' <<<"$plan")
  if [[ -n $upgrades && ${SETUP_UPGRADE-} != 1 ]]; then
    echo "What is missing needs newer versions of what is installed:$upgrades" >&2
    echo "Nothing is upgraded here. If you want that, run this, then start again:" >&2
    return 1
  fi
  sizes=$(awk '{ print $2 "=" $3 }' <<<"$plan" | xargs apt-cache show |
    awk '$1 == "Size:" { down += $2 } $1 == "Installed-Size:" { disk += $2 }
         END { printf "%.1f MB to download, %.1f MB on disk", down / 1e6, disk * 1024 / 1e6 }')
  if [[ -n $upgrades ]]; then
    echo "Installing or upgrading $(wc -w <<<"$names") Debian packages, $sizes; upgraded:$upgrades"
  else
    echo "Installing $(wc -w <<<"$names") Debian packages, $sizes; nothing is upgraded or removed:"
  fi
  fold -s -w 96 <<<"${names# }" | sed 's/^/  /'
}

# Prints those of the named packages that apt-get can install without an upgrade.
setup_harmless() {
  local name plan
  for name in "$@"; do
    plan=$(setup_plan "$name" 2>/dev/null) || continue
    [[ -n $(setup_upgrades "$plan") ]] || echo "$name"
  done
}

# Leaves out of `optional` what would need an upgrade, if anything does.
setup_leave_out() {
  local plan kept
  if [[ ${SETUP_UPGRADE-} == 1 ]] || ((${#optional[@]} == 0)); then return 0; fi
  if plan=$(setup_plan "${missing[@]}" "${optional[@]}" 2>/dev/null) &&
    [[ -z $(setup_upgrades "$plan") ]]; then return 0; fi
  kept=$(setup_harmless "${optional[@]}")
  echo "Left out, because they need newer versions of what is installed, or are not to be found:"
  echo "  $(grep -vxF -e "$kept" <<<"$(printf '%s\n' "${optional[@]}")" | tr '\n' ' ')"
  mapfile -t optional < <(printf '%s' "$kept")
}

setup_packages() {
  local name plan missing=() optional=() admin=() install into=missing
  if ! command -v dpkg-query >/dev/null; then
    echo "This is not a Debian system; assuming that what these packages hold is there: $*" >&2
    return 0
  fi
  for name in "$@"; do
    if [[ $name == --optional ]]; then
      into=optional
      continue
    fi
    dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed && continue
    if [[ $into == missing ]]; then missing+=("$name"); else optional+=("$name"); fi
  done
  ((${#missing[@]} + ${#optional[@]})) || return 0
  local all=("${missing[@]}" "${optional[@]}")
  install="apt-get install --no-install-recommends ${all[*]}"
  if (($(id -u) != 0)); then
    if ! sudo -n true 2>/dev/null; then
      if ((${#missing[@]} == 0)); then
        echo "Without some Debian packages, some things are left out. To have them:" >&2
        echo "  sudo $install" >&2
        return 0
      fi
      echo "Missing Debian packages. Install them, then start this again:" >&2
      echo "  sudo $install" >&2
      return 1
    fi
    admin=(sudo -n)
  fi
  # The lists of packages may be missing or too old; the second attempt has new ones.
  local attempt
  for attempt in 1 2; do
    if ((attempt == 2)); then
      "${admin[@]}" apt-get -qq update || break
      setup_leave_out
    fi
    ((${#missing[@]} + ${#optional[@]})) || return 0
    plan=$(setup_plan "${missing[@]}" "${optional[@]}" 2>/dev/null) || continue
    if ((attempt == 1)) && [[ -n $(setup_upgrades "$plan") ]]; then continue; fi
    setup_announce "$plan" || { echo "  sudo $install" >&2; return 1; }
    "${admin[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-upgrade \
      --no-remove --no-install-recommends "${missing[@]}" "${optional[@]}" && return 0
  done
  { setup_plan "${missing[@]}" "${optional[@]}" || true; } 2>&1 >/dev/null | grep '^[EW]:' >&2 || true
  ((${#missing[@]})) || return 0
  echo "These Debian packages cannot be installed; this shows the whole reason:" >&2
  echo "  sudo $install" >&2
  return 1
}

# OpenBLAS is compared with, and used on processors that libcompute's own matrix kernels do not
# know. Its package would make itself libblas.so.3 and liblapack.so.3 of every program on the
# machine, so where it is not installed it is only unpacked, and found by its path. Nothing fails
# without it.
setup_openblas() {
  local folder=$1/openblas library
  if { PATH=$PATH:/sbin:/usr/sbin ldconfig -p || true; } | grep 'libopenblas\.so\.0 ' >/dev/null; then
    return 0
  fi
  library=$(find "$folder" -name libopenblas.so.0 -print -quit 2>/dev/null || true)
  if [[ -z $library ]]; then
    if ! command -v apt-get dpkg >/dev/null; then return 0; fi
    echo "Unpacking OpenBLAS into $folder: about 7 MB to download, 44 MB on disk"
    rm -rf "$folder" "$folder.part" # what an earlier run may have left unfinished
    mkdir -p "$folder.part"
    (cd "$folder.part" && apt-get -qq -o APT::Sandbox::User= download libopenblas0-pthread &&
      dpkg -x libopenblas0*.deb . && rm libopenblas0*.deb) ||
      { echo "OpenBLAS is left out: it cannot be downloaded" >&2; return 0; }
    mv "$folder.part" "$folder"
    library=$(find "$folder" -name libopenblas.so.0 -print -quit)
  fi
  [[ -z $library ]] || export LD_LIBRARY_PATH=${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

setup_build() {
  local build=$1
  shift
  cmake -S "$SETUP_ROOT" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$build/prefix" "$@" &&
    cmake --build "$build" &&
    cmake --install "$build" >"$build/install.log"
}
