# SPDX-License-Identifier: MIT
# libcompute for systems that are not here: the library, its modules and programs, built and linked
# with zig (PyPI's ziglang), which has the C libraries of other systems. Nothing runs. The files are
# checked instead: kind and processor, the names by which they find each other, and symbols. Then a
# project finds the installed package. zlib, libmd and jansson are built from Debian's sources.
# Started by ctest: TREE BUILD_DIR SCRATCH_DIR TARGET..., such as aarch64-macos. Exits with 77 if
# something is missing.
set -euo pipefail
tree=$1 build_dir=$2 folder=$2/zig
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/environment.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }
fail() { echo "$1"; exit 1; }

needs make make
needs readelf binutils
needs pkg-config pkg-config
unset CFLAGS LDFLAGS LD_LIBRARY_PATH CC CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
mkdir -p "$folder"
python_environment "$folder" ziglang
zig=$("$python" -c 'import ziglang; print(ziglang.__path__[0])' 2>/dev/null)/zig || true
[[ -x $zig ]] || skip "the Python package ziglang cannot be had"
export ZIG_GLOBAL_CACHE_DIR=$folder/cache
[[ -d $folder/jansson ]] || fetch_sources "$folder" zlib libmd jansson ||
  skip "the sources of zlib, libmd and jansson cannot be had"

# The names that a library exports, without the name of their version.
exports() { nm -D --defined-only "$1" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' | sort; }
exports "$build_dir/lib/libcompute.so" >"$folder/names"
[[ -s $folder/names ]] || fail "no names in $build_dir/lib/libcompute.so"
for module in cpu opencl cuda null; do echo compute_backend_entry >"$folder/names-$module"; done

libraries_build() { # makes $root
  local sources=$root/sources host=$processor-unknown-$system
  [[ $system == macos ]] && host=$processor-apple-darwin
  mkdir -p "$sources"
  cp -a "$folder/zlib" "$folder/libmd" "$sources"
  # Mach-O files have no second names of functions. SHA-256 needs none.
  [[ $system == macos ]] &&
    sed -i 's/ __attribute__((__alias__(#symbol)))//' "$sources/libmd/src/local-link.h"
  export CC="${compile[*]}" AR="$zig ar" RANLIB="$zig ranlib"
  # On macOS zlib 1.2.13 takes fdopen for missing.
  export CFLAGS="-O2 -fPIC -fvisibility=hidden -Dfdopen=fdopen"
  (cd "$sources/zlib" && quietly ./configure --uname=Linux --static --prefix="$root" &&
    quietly make install)
  (cd "$sources/libmd" && quietly ./configure --host="$host" --disable-shared --prefix="$root" &&
    quietly make install)
  unset CC AR RANLIB CFLAGS
  quietly cmake -S "$folder/jansson" -B "$sources/jansson" "${toolchain[@]}" \
    -DCMAKE_C_FLAGS="-fPIC -fvisibility=hidden" -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF \
    -DJANSSON_BUILD_DOCS=OFF -DCMAKE_INSTALL_PREFIX="$root"
  quietly cmake --build "$sources/jansson" --target install
  # OpenCL's headers are for every system (Debian: opencl-c-headers).
  [[ -d /usr/include/CL ]] && cp -r /usr/include/CL "$root/include"
  touch "$root/complete"
}

mach_o() { "$python" "$tree/tests/install/mach_o.py" "$1" "$processor" "${@:2}"; }

check_macos() {
  local name file
  name=$(readlink "$build/lib/libcompute.dylib") # the link without the patch version
  [[ $name == libcompute.*.*.dylib ]] || fail "libcompute.dylib is a link to $name"
  mach_o "$build/lib/$name" library --name "@rpath/$name" --exports "$folder/names"
  for file in "$build"/lib/compute/*.so; do
    mach_o "$file" library --exports "$folder/names-cpu"
  done
  for file in run info tune fit; do
    mach_o "$build/bin/compute-$file" program --needs "@rpath/$name" --rpath @loader_path/../lib
  done
  mach_o "$build/bin/compute-conformance" program
}
check_macos_user() {
  local name
  name=$(readlink "$build/lib/libcompute.dylib")
  for file in "$target/user/hello" "$target/by-pkg-config"; do
    mach_o "$file" program --needs "@rpath/$name" --rpath @loader_path/../lib
  done
}

elf() { # FILE LIBRARY...: its processor, its libraries, and symbols that no library has
  local kind needed unknown
  kind=$(readelf -h "$1")
  [[ $kind == *"Advanced Micro Devices X86-64"* ]] || fail "$1: $kind"
  needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  echo "$(basename "$1") needs ${needed//$'\n'/ }"
  for library in $needed; do
    [[ " ${*:2} " == *" $library "* ]] || fail "$1 needs $library"
  done
  # libexecinfo has no versions of symbols, and the variable is the program's.
  unknown=$(nm -D --undefined-only "$1" |
    awk '$1 == "U" && $2 !~ /@FBSD_|^compute_|^backtrace$|^environ$/ { print $2 }')
  [[ -z $unknown ]] || fail "$1: nobody has ${unknown//$'\n'/ }"
}
system_libraries=(libc.so.7 libm.so.5 libthr.so.3 libdl.so.1 libexecinfo.so.1)

check_freebsd() {
  local soname file
  soname=$(readelf -d "$build/lib/libcompute.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
  [[ $soname == libcompute.so.*.* && -e $build/lib/$soname ]] || fail "the soname is $soname"
  elf "$build/lib/libcompute.so" "${system_libraries[@]}"
  exports "$build/lib/libcompute.so" | diff "$folder/names" - || fail "other symbols are exported"
  for file in "$build"/lib/compute/*.so; do
    elf "$file" "${system_libraries[@]}"
    exports "$file" | diff "$folder/names-cpu" - || fail "$file exports other symbols"
  done
  for file in run info tune fit; do
    elf "$build/bin/compute-$file" "$soname" "${system_libraries[@]}"
  done
}
check_freebsd_user() {
  local soname file
  soname=$(readelf -d "$build/lib/libcompute.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
  for file in "$target/user/hello" "$target/by-pkg-config"; do
    elf "$file" "$soname" "${system_libraries[@]}"
  done
}

mkdir -p "$folder/user"
cat >"$folder/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(user C)
find_package(compute REQUIRED)
add_executable(hello ${TREE}/docs/examples/hello.c)
target_link_libraries(hello PRIVATE compute::compute)
set_target_properties(hello PROPERTIES INSTALL_RPATH "${ORIGIN}/../lib")
END

for name in "${@:4}"; do
  target=$folder/$name root=$folder/$name/root build=$folder/$name/build prefix=$folder/$name/prefix
  processor=${name%%-*} system=${name#*-}
  toolchain=(-G Ninja -DCMAKE_TOOLCHAIN_FILE="$tree/src/packaging/zig/zig.cmake"
    -DZIG_PROGRAM="$zig" -DZIG_TARGET="$name" -DCMAKE_BUILD_TYPE=Release)
  compile=("$zig" cc -target "$name" -fno-sanitize=undefined)
  origin='$ORIGIN'
  [[ $system == macos ]] && origin=@loader_path
  echo "== $name"
  [[ -e $root/complete ]] || libraries_build
  export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
  # Loops without optimisation, which are quick to compile, and vectors for one system.
  vectors=OFF
  [[ $system == macos ]] && vectors=$(share_vectors)
  quietly cmake -S "$tree" -B "$build" "${toolchain[@]}" -DCMAKE_FIND_ROOT_PATH="$root" \
    -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOMPUTE_CPU_OPTIMISATION=-O0 -DCOMPUTE_CPU_VECTORS="$vectors" \
    -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCOMPUTE_MPI=OFF -DCOMPUTE_BENCH=OFF \
    -DCOMPUTE_DOCS=OFF -DCOMPUTE_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$prefix"
  quietly cmake --build "$build"
  "check_$system"
  rm -rf "$prefix"
  quietly cmake --install "$build"
  quietly cmake -S "$folder/user" -B "$target/user" "${toolchain[@]}" -DTREE="$tree" \
    -DORIGIN="$origin" -DCMAKE_FIND_ROOT_PATH="$prefix"
  quietly cmake --build "$target/user"
  export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  quietly "${compile[@]}" "$tree/docs/examples/hello.c" $(pkg-config --cflags --libs compute) \
    -Wl,-rpath,"$origin/../lib" -o "$target/by-pkg-config"
  "check_${system}_user"
done
