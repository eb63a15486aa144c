# SPDX-License-Identifier: MIT
# The release and its Debian packages: the tarball is reproducible, dpkg-buildpackage makes the
# packages from it, lintian finds no error, and the unpacked files serve a program through
# pkg-config. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. Exits with 77 if something is missing.
set -euo pipefail
tree=$1 build=$2 scratch=$3 folder=$2/packages
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
fail() { echo "$1"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -50 "$scratch/log"; fail "failed: $*"; }; }
needs dpkg-buildpackage dpkg-dev
needs dh debhelper
needs lintian lintian
needs git git
needs xz xz-utils
git -C "$tree" rev-parse HEAD >/dev/null 2>&1 || skip "a release is made from a git checkout"
unset COMPUTE_BACKEND_PATH COMPUTE_BACKENDS COMPUTE_DEVICE LD_LIBRARY_PATH CFLAGS
rm -rf "$scratch"
mkdir -p "$scratch/again" "$folder"

quietly cmake --build "$build" --target dist
tarball=$(ls -t "$build"/libcompute-*.tar.xz | head -1)
version=$(basename "$tarball" .tar.xz)
version=${version#libcompute-}
quietly bash "$tree/src/packaging/dist.sh" "$tree" "$version" "$scratch/again"
cmp "$tarball" "$scratch/again/$(basename "$tarball")" || fail "the same commit gives another tarball"

rm -rf "${folder:?}"/*
tar -xf "$tarball" -C "$folder"
if bash "$folder/libcompute-$version/src/packaging/dist.sh" "$folder/libcompute-$version" \
  "$version" "$scratch/again" 2>/dev/null; then fail "a release is made from a release"; fi
cd "$folder/libcompute-$version"
dpkg-checkbuilddeps -P nocheck >"$scratch/log" 2>&1 || skip "$(cat "$scratch/log")"
# Without AVX, which is the same code and the slowest to compile, and not optimised.
COMPUTE_CMAKE_OPTIONS="-DCOMPUTE_CPU_VECTORS=OFF -DCOMPUTE_CPU_OPTIMISATION=-O0" DEB_BUILD_PROFILES=nocheck \
  DEB_BUILD_OPTIONS="nocheck noopt noautodbgsym parallel=$(nproc)" quietly dpkg-buildpackage -us -uc -b
cd "$folder"
# The project has no mail address yet, so example.org takes its place.
quietly lintian --fail-on error --suppress-tags bogus-mail-host ./*.changes
grep -v '^N:' "$scratch/log" || true

root=$scratch/root
for package in *.deb; do
  dpkg -x "$package" "$root"
  dpkg -c "$package" | awk -v name="${package%%_*}" '{ print name, $6 }'
done >"$scratch/files"
soversion=$(ls | sed -n 's/^libcompute\([0-9.]*\)_.*/\1/p' | head -1)
library=$(dirname "$(find "$root" -name "libcompute.so.$soversion")")
has() { # PACKAGE FILE: only this package has the file
  local packages
  packages=$(awk -v end="/$2" '
    substr($2, length($2) - length(end) + 1) == end { printf "%s ", $1 }' "$scratch/files")
  [[ $packages == "$1 " ]] || fail "$2 is in: $packages"
}
has "libcompute$soversion" "libcompute.so.$soversion"
has "libcompute$soversion" compute/libcompute-cpu.so
has libcompute-opencl compute/libcompute-opencl.so
has libcompute-cuda compute/libcompute-cuda.so
has libcompute-openmpi compute/libcompute-transport-openmpi.so
has libcompute-mpich compute/libcompute-transport-mpich.so
has libcompute-dev compute/libcompute-null.so
has libcompute-dev libcompute.so
has libcompute-dev include/compute/compute.h
has compute-tools bin/compute-info
has compute-tools man1/compute-fit.1.gz
[[ -z $(find "$root" -name 'peer-*') ]] || fail "peers of the benchmark are packaged"

export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library
# shellcheck disable=SC2046
"$CC" -Wall -Werror "$tree/docs/examples/hello.c" $(pkg-config --cflags --libs compute) \
  -o "$scratch/hello"
"$scratch/hello" | grep 'on device' || fail "hello does not work"
"$root/usr/bin/compute-info" | grep -A1 'cpu: loaded' | grep "$root" || fail "another CPU module"
