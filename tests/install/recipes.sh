# SPDX-License-Identifier: MIT
# The files for package managers that `dist` writes: complete, and each tried as far as its tools are
# here. Meson and Conan build and run a program. Started by ctest: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 build=$2 scratch=$3
source "$tree/tests/support/harness/share.sh"
unset COMPUTE_BACKEND_PATH LD_LIBRARY_PATH
fail() { echo "$1"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -50 "$scratch/log"; fail "failed: $*"; }; }
missing() { echo "$1 was not tried: no $2"; }
quick=(-DCOMPUTE_CPU_VECTORS=OFF -DCOMPUTE_CPU_OPTIMISATION=-O0 -DCOMPUTE_CUDA=OFF -DCOMPUTE_OPENCL=OFF)

rm -rf "$scratch"
mkdir -p "$scratch"
git -C "$tree" rev-parse --verify -q HEAD >/dev/null || { echo "skipped: $tree is not a git checkout"; exit 77; }
version=$(sed -n 's/^project(compute VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
quietly bash "$tree/src/packaging/dist.sh" "$tree" "$version" "$scratch"
archive=$scratch/libcompute-$version.tar.xz recipes=$scratch/libcompute-$version-packaging
(cd "$scratch" && sha256sum -c --quiet ./*.sha256 && sha512sum -c --quiet ./*.sha512) || fail "wrong checksums"
! grep -rE '@(version|url|sha[0-9]*)@' "$recipes" || fail "a place was not filled"
[[ -z $(find "$recipes" -name '*.in') ]] || fail "templates are left"

# vcpkg's own functions are replaced by ones that do nothing.
python3 -m json.tool "$recipes/vcpkg/libcompute/vcpkg.json" >/dev/null || fail "vcpkg.json"
for name in download_distfile extract_source_archive cmake_configure cmake_install cmake_config_fixup \
  fixup_pkgconfig install_copyright; do
  echo "function(vcpkg_$name)"; echo "endfunction()"
done >"$scratch/vcpkg.cmake"
echo "include($recipes/vcpkg/libcompute/portfile.cmake)" >>"$scratch/vcpkg.cmake"
quietly cmake -DCURRENT_PACKAGES_DIR="$scratch/none" -P "$scratch/vcpkg.cmake"

if command -v ruby >/dev/null; then quietly ruby -c "$recipes/homebrew/libcompute.rb"; else missing Homebrew ruby; fi
if command -v nix-instantiate >/dev/null; then
  quietly nix-instantiate --parse "$recipes/nix/default.nix"
else
  missing Nix nix-instantiate
fi

meson_project() {
  local project=$scratch/meson
  mkdir -p "$project/subprojects/packagecache"
  cp -r "$recipes/meson/." "$project/subprojects/"
  cp "$archive" "$project/subprojects/packagecache/"
  cp "$tree/docs/examples/hello.c" "$project/"
  cat >"$project/meson.build" <<'MESON'
project('app', 'c', default_options: ['c_std=c11', 'buildtype=debug'])
executable('app', 'hello.c', dependencies: dependency('compute'), install: true, install_rpath: '$ORIGIN/../lib')
MESON
  (IFS=,; CFLAGS="" quietly meson setup "$project/build" "$project" --force-fallback-for=compute \
    --prefix="$scratch/meson-prefix" --libdir=lib "-Dlibcompute:options=${quick[*]}")
  quietly meson compile -C "$project/build"
  "$project/build/app" || fail "the program of the Meson project does not run"
  quietly meson install -C "$project/build"
  rm -rf "$project/build"
  "$scratch/meson-prefix/bin/app" || fail "the installed program of the Meson project does not run"
}
if command -v meson >/dev/null; then meson_project; else missing Meson "meson (Debian: meson)"; fi

# zlib and libmd are the system's: Conan's servers are not asked.
conan_package() {
  export CONAN_HOME=$scratch/conan
  quietly env -u CC conan profile detect # it knows compilers by their names
  cat >>"$CONAN_HOME/profiles/default" <<'CONAN'
[platform_requires]
zlib/1.3.1
libmd/1.1.0
CONAN
  sed -i "s|url: .*|url: \"file://$archive\"|" "$recipes/conan/conandata.yml"
  local settings=(-o "libcompute/*:cuda=False" -o "libcompute/*:opencl=False" -s build_type=Debug
    -c "tools.cmake.cmaketoolchain:extra_variables={'COMPUTE_CPU_VECTORS':'OFF','COMPUTE_CPU_OPTIMISATION':'-O0'}")
  quietly conan create "$recipes/conan" --no-remote "${settings[@]}"
}
if command -v conan >/dev/null; then conan_package; else missing Conan "conan (PyPI: conan)"; fi
