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

# What libcompute and its programs cannot be built without.
SETUP_BUILD_PACKAGES=(libc6-dev cmake ninja-build pkg-config zlib1g-dev libmd-dev libjansson-dev)
# Installed beside another compiler, it would become the machine's cc.
command -v cc >/dev/null || SETUP_BUILD_PACKAGES+=(gcc)
# Everything below is optional: what needs a package that is missing is left out, with a reason.
# The OpenCL module, what OpenBLAS needs (setup_openblas), and kinds of files.
SETUP_FIT_PACKAGES=(ocl-icd-opencl-dev libgfortran5 libtiff-dev libhdf5-dev libyaml-dev libpng-dev)
# For bench/run.sh: its examples and its report; and a library to compare with.
SETUP_BENCH_PACKAGES=(make python3)
SETUP_PEER_PACKAGES=(libdnnl-dev)

# What the tests cannot be built without.
SETUP_TEST_PACKAGES=(libcmocka-dev)
# A C++ compiler for the headers, a second C compiler with its sanitizers and fuzzer (which clang does not
# bring along), python3 for the programs' tests, valgrind, devices. The Python modules and the tools look
# at the files that compute-fit reads and writes; Graphviz reads what COMPUTE_DUMP draws; ONNX's test
# data are models. Transports are built for the MPIs that are installed.
SETUP_MORE_TEST_PACKAGES=(make clang libclang-rt-dev python3 valgrind pocl-opencl-icd
  oclgrind libclblast1 python3-h5py python3-tifffile python3-yaml python3-cffi
  libtiff-tools hdf5-tools graphviz libonnx-testdata openmpi-bin libopenmpi-dev mpich libmpich-dev)
# For tests/run.sh --full: packages of libcompute, builds for another C library and another processor,
# the documentation site, the README in a minimal Debian, onnx from PyPI, and a search for defects.
SETUP_FULL_TEST_PACKAGES=(debhelper dpkg-dev lintian git xz-utils musl-tools gcc-aarch64-linux-gnu
  libc6-dev-arm64-cross qemu-user doxygen debootstrap python3-venv clang-tidy)
SETUP_CXX_PACKAGES=()
command -v c++ >/dev/null || SETUP_CXX_PACKAGES=(g++)
SETUP_MORE_TEST_PACKAGES+=("${SETUP_CXX_PACKAGES[@]}")

# How what a package brings is found where it came in another way: a command, a header, a module of
# pkg-config.
declare -A SETUP_PROBES=(
  [libc6-dev]=header:stdio.h [cmake]=command:cmake [ninja-build]=command:ninja
  [pkg-config]=command:pkg-config [zlib1g-dev]=header:zlib.h [libmd-dev]=header:sha2.h
  [libjansson-dev]=module:jansson [gcc]=command:cc [make]=command:make [python3]=command:python3
  [libcmocka-dev]=module:cmocka)

# Whether a package, or what it brings, is there.
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

# Whether all of the commands are there.
setup_commands() {
  local name
  for name in "$@"; do command -v "$name" >/dev/null || return 1; done
}

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

# Sets `admin`, the words before a command of the administrator. Fails where there is none.
setup_admin() {
  admin=()
  if (($(id -u) == 0)); then return 0; fi
  admin=(sudo -n)
  command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

# Installs NAME…, as far as the lists of packages go. Fails if something is still missing.
setup_install() {
  local plan
  (($#)) || return 0
  plan=$(setup_plan "$@" 2>/dev/null) || return 1
  setup_announce "$plan" || return 1
  "${admin[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-upgrade \
    --no-remove --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
}

# As setup_install, of `missing` and `optional`. The lists of packages may be missing or too old, and
# there may be no way to new ones: what is optional then does without.
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
    if ! setup_commands apt-get dpkg; then
      echo "OpenBLAS is left out: it is not installed (Debian: libopenblas0-pthread)" >&2
      return 0
    fi
    echo "Fetching OpenBLAS into $folder: about 7 MB to download, 44 MB on disk"
    rm -rf "$folder" "$folder.part" # what an earlier run may have left unfinished
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
