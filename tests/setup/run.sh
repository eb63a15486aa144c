# SPDX-License-Identifier: MIT
# The effects of support/harness/setup.sh on a machine: it announces its installations in advance, and
# never upgrades, removes or switches anything. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. The package
# tools are simulated and record their calls.
set -euo pipefail
tree=$1 scratch=$3
tools=$scratch/tools
rm -rf "$scratch"
mkdir -p "$tools"

# stand_in NAME: a program; its body is read from stdin.
stand_in() {
  { printf '#!/bin/bash\necho "%s $*" >>"%s/calls"\n' "$1" "$scratch"; cat; } >"$tools/$1"
  chmod +x "$tools/$1"
}

stand_in dpkg-query <<'BODY'
[[ ${!#} == present* ]] && echo installed
BODY
# Finds every package after an update, and before it all except unknown*.
stand_in apt-get <<'BODY'
case " $* " in
*" update "*) [[ -z ${OFFLINE-} ]] || { echo "E: no network" >&2; exit 100; }; touch "$SCRATCH/updated" ;;
*" download "*) touch libopenblas0-pthread_1_amd64.deb ;;
*" -s "*)
  for name in "$@"; do
    case $name in
    unknown*) [[ -e $SCRATCH/updated ]] || { echo "E: Unable to locate package" >&2; exit 100; } ;;
    conflict*) echo "E: Packages need to be removed but remove is disabled." >&2; exit 100 ;;
    esac
    case $name in
    newer*) echo "Inst $name (2.0 Debian:12/stable [amd64]) []"
            echo "Inst lib$name [1.0] (2.0 Debian:12/stable [amd64])" ;;
    absent* | unknown* | broken*) echo "Inst $name (1.5 Debian:12/stable [amd64])"
                        echo "Conf $name (1.5 Debian:12/stable [amd64])" ;;
    esac
  done ;;
*" install "*) [[ "$*" != *broken* ]] || { echo "E: Unable to fetch some archives" >&2; exit 100; }
  echo "apt-get at work" ;;
esac
BODY
stand_in apt-cache <<'BODY'
shift
for name in "$@"; do printf 'Package: %s\nInstalled-Size: 2000\nSize: 3000000\n\n' "${name%%=*}"; done
BODY
stand_in dpkg <<'BODY'
[[ $1 != -x ]] || { mkdir -p "$3/usr/lib/there"; touch "$3/usr/lib/there/libopenblas.so.0"; }
BODY
stand_in id <<<'echo "${USER_ID:-0}"'
stand_in sudo <<<'[[ -n ${SUDO_WORKS-} ]] || exit 1; [[ $2 == true ]] || exec "${@:2}"'
stand_in ldconfig <<<'echo "${LIBRARIES-}"'
stand_in update-alternatives </dev/null

fail() { echo "$1"; cat "$scratch/output" "$scratch/calls"; exit 1; }
called() { grep -q -- "$1" "$scratch/calls"; }
says() { grep -q -- "$1" "$scratch/output"; }
line_of() { grep -n -m1 -- "$1" "$scratch/output" | cut -d: -f1; }

# Runs a function of setup.sh; sets `result` to its status.
setup() {
  rm -f "$scratch/updated"
  : >"$scratch/calls"
  result=0
  SCRATCH=$scratch PATH=${SETUP_PATH:-$tools:$PATH} \
    bash -c 'path=$PATH; source "$0"; PATH=$path; "$@"' \
    "$tree/tests/support/harness/setup.sh" "$@" >"$scratch/output" 2>&1 || result=$?
}

setup setup_packages present-a present-b
[[ $result == 0 && ! -s $scratch/output ]] || fail "something is said where nothing is missing"
! called '^apt-get' || fail "apt-get is started where nothing is missing"

setup setup_packages present-a absent-a absent-b
[[ $result == 0 ]] || fail "missing packages: status $result"
says 'Installing 2 Debian packages, 6.0 MB to download, 4.1 MB on disk; nothing is upgraded' ||
  fail "what and how much is not said"
says '^  absent-a absent-b$' || fail "the packages are not named"
(($(line_of Installing) < $(line_of 'at work'))) || fail "said too late"
called '^apt-get .*install -y .*absent-a absent-b$' || fail "not installed"
! called '^apt-get .*update' || fail "lists that are good enough are fetched again"
while read -r call; do
  for option in --no-upgrade --no-remove --no-install-recommends; do
    [[ $call == *" $option "* ]] || fail "apt-get without $option"
  done
done < <(grep '^apt-get.* install ' "$scratch/calls")

setup setup_packages unknown-a
[[ $result == 0 ]] || fail "a package that the lists lack: status $result"
called '^apt-get .*update' || fail "the lists are not fetched"
called '^apt-get .*install -y .*unknown-a$' || fail "not installed after an update"

for name in newer-a conflict-a; do
  setup setup_packages absent-a $name
  [[ $result == 1 ]] || fail "$name: status $result"
  ! called 'install -y' || fail "$name: installed although others must change"
  says "sudo apt-get install --no-install-recommends absent-a $name" || fail "$name: no remedy"
done
setup setup_packages newer-a
says 'newer versions of what is installed: libnewer-a$' || fail "what is old is not named"

SETUP_UPGRADE=1 setup setup_packages absent-a newer-a
[[ $result == 0 ]] && called 'install -y .*absent-a newer-a$' || fail "no upgrade though it is allowed"
says 'upgraded: libnewer-a$' || fail "what is upgraded is not said"

# Missing optional packages never stop anything.
setup setup_packages absent-a --optional newer-a absent-b conflict-a
[[ $result == 0 ]] || fail "an optional package that is too new: status $result"
called 'install -y .*absent-a absent-b$' || fail "the others are not installed"
says '^  newer-a conflict-a' || fail "what is left out is not said"
setup setup_packages present-a --optional newer-a
[[ $result == 0 ]] || fail "only optional ones are missing: status $result"
! called 'install -y' || fail "an optional package is installed by an upgrade"
setup setup_packages present-a --optional present-b
[[ $result == 0 && ! -s $scratch/output ]] || fail "something is said where nothing is missing"
USER_ID=1000 setup setup_packages present-a --optional absent-b
[[ $result == 0 ]] && says 'sudo apt-get install' || fail "without root, optional: status $result"

USER_ID=1000 setup setup_packages absent-a
[[ $result == 1 ]] || fail "without root or sudo: status $result"
! called 'install -y' || fail "installed without being allowed"
says '^  sudo apt-get install --no-install-recommends absent-a$' || fail "no apt-get line"
USER_ID=1000 SUDO_WORKS=1 setup setup_packages absent-a
[[ $result == 0 ]] && called '^apt-get .*install -y .*absent-a$' || fail "sudo is not used"

# Nothing is requested that exists in another form: a command, a header, a module of pkg-config.
SETUP_PATH=$tools:$PATH setup setup_packages cmake libc6-dev pkg-config
[[ $result == 0 && ! -s $scratch/output ]] || fail "cmake or libc6-dev is there, and asked for"

# Without access to new package lists, packages in the old ones are installed and the others left
# out.
OFFLINE=1 setup setup_packages absent-a --optional unknown-a
[[ $result == 0 ]] && called 'install -y .*absent-a$' || fail "offline, required: status $result"
says '^  unknown-a' || fail "offline: what is left out is not said"
OFFLINE=1 setup setup_packages present-a --optional unknown-a
[[ $result == 0 ]] || fail "offline, optional: status $result"
OFFLINE=1 setup setup_packages unknown-a
[[ $result == 1 ]] && says 'sudo apt-get install' || fail "offline, required and not to be had: status $result"
OFFLINE=1 setup setup_packages present-a present-b
[[ $result == 0 && ! -s $scratch/output ]] || fail "offline with everything installed: status $result"

# An optional package that cannot be downloaded stops neither the others nor the command.
setup setup_packages absent-a --optional broken-a
[[ $result == 0 ]] && called 'install -y .*absent-a$' || fail "an optional package that is broken: status $result"
setup setup_packages present-a --optional broken-a
[[ $result == 0 ]] && says 'left out: broken-a' || fail "a broken optional package: status $result"

# Without apt-get, without dpkg, and without both: missing packages are named, and nothing stops
# here.
few=$scratch/few
mkdir -p "$few"
for name in bash awk sed grep tr fold cat cc find cmake pkg-config; do
  ln -s "$(command -v "$name")" "$few/$name"
done
for gone in apt-get dpkg-query 'apt-get dpkg-query dpkg'; do
  rm -rf "$scratch/rest"
  cp -r "$tools" "$scratch/rest"
  for name in $gone; do rm -f "$scratch/rest/$name"; done
  SETUP_PATH=$scratch/rest:$few setup setup_packages cmake absent-a --optional absent-b
  [[ $result == 0 ]] && says '^  absent-a absent-b$' || fail "without $gone: status $result"
  ! called 'install -y' || fail "without $gone: installed"
done
SETUP_PATH=$scratch/rest:$few setup setup_openblas "$scratch/without"
[[ $result == 0 ]] && says 'left out.*Debian: libopenblas0-pthread' || fail "OpenBLAS without apt-get: $result"

# OpenBLAS is found, or unpacked once and found by its path; the machine's BLAS does not change.
show_library() { setup_openblas "$1"; echo "path: ${LD_LIBRARY_PATH-none}"; }
export -f show_library
unset LD_LIBRARY_PATH
LIBRARIES='	libopenblas.so.0 (libc6,x86-64) => /usr/lib/libopenblas.so.0' setup show_library "$scratch/b"
says '^path: none$' || fail "OpenBLAS is installed, but unpacked again"
for _ in once again; do
  setup show_library "$scratch/b"
  says "^path: $scratch/b/openblas/./usr/lib/there$" || says "^path: $scratch/b/openblas/usr/lib/there$" ||
    fail "OpenBLAS is not found by its path"
done
! called 'download' || fail "OpenBLAS is downloaded twice"
! called 'install' || fail "OpenBLAS is installed"
! called '^update-alternatives' || fail "alternatives are switched"
lists=$(source "$tree/tests/support/harness/setup.sh"; echo "${SETUP_BUILD_PACKAGES[*]} ${SETUP_FIT_PACKAGES[*]}" \
  "${SETUP_TEST_PACKAGES[*]} ${SETUP_MORE_TEST_PACKAGES[*]} ${SETUP_FULL_TEST_PACKAGES[*]}")
! grep -oE '[a-z][^ ]*-[0-9.]+(-[^ ]*)?( |$)' <<<"$lists" || fail "a package's name holds for one release of Debian only"
! grep -qE 'openblas|atlas|blis|lapack|libblas' <<<"$lists $(grep setup_packages "$tree"/*/run.sh)" ||
  fail "a package is installed that switches BLAS"
