# SPDX-License-Identifier: MIT
# Set-up of a fresh Debian machine, shared by tests/run.sh and bench/run.sh: source this file.
#
#   setup_packages NAME… [--optional NAME…]
#                                  installs the missing Debian packages; leaves out optional ones
#                                  that would need an upgrade
#   setup_openblas BUILD_DIR       lets later programs find OpenBLAS
#   setup_build BUILD_DIR [ARG…]   configures (ARG… go to cmake), builds, installs into
#                                  BUILD_DIR/prefix
#
# This file has all package lists. A function does nothing if its work is already done. No installed
# package is removed or replaced, nor upgraded unless SETUP_UPGRADE is 1.

# If ccache is installed, all builds of a run use it, including the builds of tests.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
fi

SETUP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)

# Required to build libcompute and its programs.
SETUP_BUILD_PACKAGES=(libc6-dev cmake ninja-build pkg-config zlib1g-dev libmd-dev libjansson-dev)
# Next to another compiler, gcc would become the machine's cc.
command -v cc >/dev/null || SETUP_BUILD_PACKAGES+=(gcc)
# All packages below are optional: parts that need a missing one are left out, with a reason. These
# are for the OpenCL module, OpenBLAS (setup_openblas), and file formats.
SETUP_FIT_PACKAGES=(ocl-icd-opencl-dev libgfortran5 libtiff-dev libhdf5-dev libyaml-dev libpng-dev)
# For bench/run.sh: its examples and its report; and a library for comparison.
SETUP_BENCH_PACKAGES=(make python3)
SETUP_PEER_PACKAGES=(libdnnl-dev)

# Required to build the tests.
SETUP_TEST_PACKAGES=(libcmocka-dev)
# A C++ compiler for the headers, a second C compiler with its sanitizers and fuzzer (separate
# packages), python3 for the programs' tests, valgrind, devices. The Python modules and the tools
# check the files that compute-fit reads and writes; Graphviz reads the graphs of COMPUTE_DUMP;
# ONNX's test data are models. Transports are built for the installed MPIs.
SETUP_MORE_TEST_PACKAGES=(make clang libclang-rt-dev python3 valgrind pocl-opencl-icd
  oclgrind libclblast1 python3-h5py python3-tifffile python3-yaml
  python3-dev python3-numpy python3-pytest
  libtiff-tools hdf5-tools graphviz libonnx-testdata openmpi-bin libopenmpi-dev mpich libmpich-dev)
# For tests/run.sh --full: packages of libcompute, builds for other C libraries, systems and processors,
# the documentation site, the README in a minimal Debian, onnx and zig from PyPI, and a search for defects.
SETUP_FULL_TEST_PACKAGES=(debhelper dpkg-dev lintian git xz-utils musl-tools gcc-mingw-w64
  libz-mingw-w64-dev wine64 wine gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu
  libc6-dev-riscv64-cross qemu-user emscripten chromium doxygen debootstrap python3-venv clang-tidy
  meson ruby)
SETUP_CXX_PACKAGES=()
command -v c++ >/dev/null || SETUP_CXX_PACKAGES=(g++)
SETUP_MORE_TEST_PACKAGES+=("${SETUP_CXX_PACKAGES[@]}")

# Finds a package's contents if they were installed in another way: a command, a header, a module of
# pkg-config.
declare -A SETUP_PROBES=(
  [libc6-dev]=header:stdio.h [cmake]=command:cmake [ninja-build]=command:ninja
  [pkg-config]=command:pkg-config [zlib1g-dev]=header:zlib.h [libmd-dev]=header:sha2.h
  [libjansson-dev]=module:jansson [gcc]=command:cc [make]=command:make [python3]=command:python3
  [libcmocka-dev]=module:cmocka)

# Succeeds if a package, or its contents, are present.
setup_has() {
  local probe=${SETUP_PROBES[$1]-}
  if command -v dpkg-query >/dev/null &&
    dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; then return 0; fi
  case $probe in
  command:*) command -v "${probe#*:}" >/dev/null ;;
  header:*) "${CC:-cc}" -E -include "${probe#*:}" - </dev/null >/dev/null 2>&1 ;;
  module:*) pkg-config --exists "${probe#*:}" 2>/dev/null ;;
  *) false ;;
  esac
}

# Succeeds if all commands are present.
setup_commands() {
  local name
  for name in "$@"; do command -v "$name" >/dev/null || return 1; done
}

# Prints apt-get's actions for these packages, one per line: "new NAME VERSION" or "upgrade NAME
# VERSION". Fails for an unknown package, or if another one would be removed.
setup_plan() {
  local steps
  steps=$(LC_ALL=C apt-get -s install --no-upgrade --no-remove --no-install-recommends "$@") &&
    awk '$1 == "Inst" && $3 ~ /^\[/ { print "upgrade", $2, substr($4, 2) }
         $1 == "Inst" && $3 !~ /^\[/ { print "new", $2, substr($3, 2) }' <<<"$steps"
}

setup_upgrades() { # PLAN: the names of the upgrades
  awk '$1 == "upgrade" { printf " %s", $2 }' <<<"$1"
}

# Announces a plan. Fails if it does more than install.
setup_announce() {
  local plan=$1 upgrades names sizes
  upgrades=$(setup_upgrades "$plan")
  names=$(awk '{ printf " %s", $2 }' <<<"$plan")
  if [[ -n $upgrades && ${SETUP_UPGRADE-} != 1 ]]; then
    echo "What is missing needs newer versions of what is installed:$upgrades" >&2
    echo "Nothing is upgraded here." >&2
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

# Prints the named packages that apt-get can install without an upgrade.
setup_harmless() {
  local name plan
  for name in "$@"; do
    plan=$(setup_plan "$name" 2>/dev/null) || continue
    [[ -n $(setup_upgrades "$plan") ]] || echo "$name"
  done
}

# If the plan needs an upgrade, removes from `optional` the packages that cause it.
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

# Sets `admin`, the prefix of an administrator's command. Fails if there is none.
setup_admin() {
  admin=()
  if (($(id -u) == 0)); then return 0; fi
  admin=(sudo -n)
  command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

# Installs NAME…, if the lists of packages are recent enough. Fails if something is still missing.
setup_install() {
  local plan
  (($#)) || return 0
  plan=$(setup_plan "$@" 2>/dev/null) || return 1
  setup_announce "$plan" || return 1
  "${admin[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-upgrade \
    --no-remove --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
}

# Like setup_install, for `missing` and `optional`. The lists of packages may be missing or too old,
# and new ones unreachable: then it does without the optional packages.
setup_try() {
  local plan
  if plan=$(setup_plan "${missing[@]}" "${optional[@]}" 2>/dev/null) &&
    [[ -z $(setup_upgrades "$plan") ]] && setup_install "${missing[@]}" "${optional[@]}"; then
    return 0
  fi
  "${admin[@]}" apt-get -qq update || echo "New lists of packages cannot be fetched." >&2
  setup_leave_out
  setup_install "${missing[@]}" "${optional[@]}" && return 0
  if ((${#optional[@]} && ${#missing[@]})); then setup_install "${missing[@]}" && return 0; fi
  { setup_plan "${missing[@]}" "${optional[@]}" || true; } 2>&1 >/dev/null | grep '^[EW]:' >&2 || true
  return 1
}

setup_packages() {
  local name missing=() optional=() admin=() install into=missing
  for name in "$@"; do
    if [[ $name == --optional ]]; then
      into=optional
    elif setup_has "$name"; then
      continue
    elif [[ $into == missing ]]; then
      missing+=("$name")
    else
      optional+=("$name")
    fi
  done
  ((${#missing[@]} + ${#optional[@]})) || return 0
  install="apt-get install --no-install-recommends ${missing[*]} ${optional[*]}"
  install=$(tr -s ' ' <<<"$install" | sed 's/ *$//')
  if ! setup_commands dpkg-query apt-get apt-cache; then
    echo "There is no apt-get here. If something is missing later, this is what Debian calls it:" >&2
    fold -s -w 96 <<<"${missing[*]} ${optional[*]}" | sed 's/^ */  /' >&2
    return 0
  fi
  if setup_admin; then
    if setup_try; then return 0; fi
    if ((${#missing[@]} == 0)); then
      echo "Without these Debian packages, some things are left out: ${optional[*]}" >&2
      return 0
    fi
    echo "These Debian packages are needed and cannot be installed. This shows the whole reason:" >&2
  elif ((${#missing[@]} == 0)); then
    echo "Without some Debian packages, some things are left out. To have them:" >&2
    echo "  sudo $install" >&2
    return 0
  else
    echo "Missing Debian packages. Install them, then start this again:" >&2
  fi
  echo "  sudo $install" >&2
  return 1
}

# OpenBLAS is a peer in benchmarks, and used on processors that libcompute's matrix kernels do not
# support. Its package would become libblas.so.3 and liblapack.so.3 of every program on the machine.
# So it is only unpacked, unless installed, and found by its path. Nothing fails without it.
setup_openblas() {
  local folder=$1/openblas library
  if { PATH=$PATH:/sbin:/usr/sbin ldconfig -p || true; } | grep 'libopenblas\.so\.0 ' >/dev/null; then
    return 0
  fi
  library=$(find "$folder" -name libopenblas.so.0 -print -quit 2>/dev/null || true)
  if [[ -z $library ]]; then
    if ! setup_commands apt-get dpkg; then
      echo "OpenBLAS is left out: it is not installed (Debian: libopenblas0-pthread)" >&2
      return 0
    fi
    echo "Fetching OpenBLAS into $folder: about 7 MB to download, 44 MB on disk"
    rm -rf "$folder" "$folder.part" # remains of an interrupted run
    mkdir -p "$folder.part"
    (cd "$folder.part" && apt-get -qq -o APT::Sandbox::User= download libopenblas0-pthread &&
      dpkg -x libopenblas0*.deb . && rm libopenblas0*.deb) ||
      {
        echo "OpenBLAS is left out: it cannot be fetched (Debian: libopenblas0-pthread)" >&2
        rm -rf "$folder.part"
        return 0
      }
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
