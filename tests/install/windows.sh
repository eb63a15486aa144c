# SPDX-License-Identifier: MIT
# libcompute for Windows x86-64: the library, its CPU module, programs and tests built with
# mingw-w64, run under wine; and a project that finds the installed package. libmd, cmocka and
# jansson, which Debian has for Linux only, are built from Debian's sources. Started by ctest: TREE
# BUILD_DIR SCRATCH_DIR. Exits with 77 if something is missing.
set -euo pipefail
tree=$1 folder=$2/windows
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }

target=x86_64-w64-mingw32
needs $target-gcc gcc-mingw-w64
needs wine wine64
needs make make
[[ -e /usr/$target/lib/libz.a ]] || skip "no zlib for Windows (Debian: libz-mingw-w64-dev)"
unset CFLAGS LDFLAGS LD_LIBRARY_PATH CC
mkdir -p "$folder"
root=$folder/root
toolchain=(-DCMAKE_TOOLCHAIN_FILE="$tree/src/packaging/windows/mingw-w64.cmake"
  -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_CROSSCOMPILING_EMULATOR="$(command -v wine)")
if [[ ! -e $root/complete ]]; then
  fetch_sources "$folder" libmd cmocka jansson || skip "the sources of libmd, cmocka and jansson cannot be had"
  (cd "$folder/libmd" && quietly ./configure --host=$target --disable-shared --prefix="$root" &&
    quietly make install)
  quietly cmake -S "$folder/cmocka" -B "$folder/cmocka/build" "${toolchain[@]}" -DWITH_EXAMPLES=OFF \
    -DWITH_STATIC_LIB=ON -DCMAKE_INSTALL_PREFIX="$root"
  quietly cmake --build "$folder/cmocka/build" --target install
  cp "$folder/cmocka/build/src/libcmocka-static.a" "$root/lib/libcmocka.a"
  rm -f "$root/lib/libcmocka.dll.a"
  quietly cmake -S "$folder/jansson" -B "$folder/jansson/build" "${toolchain[@]}" \
    -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF -DJANSSON_BUILD_DOCS=OFF \
    -DCMAKE_INSTALL_PREFIX="$root"
  quietly cmake --build "$folder/jansson/build" --target install
  # OpenCL's headers are for every system (Debian: opencl-c-headers).
  [[ -d /usr/include/CL ]] && cp -r /usr/include/CL "$root/include"
  touch "$root/complete"
fi

export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
export WINEPREFIX=$folder/wine WINEARCH=win64 WINEDEBUG=-all
# One server and its services for all programs. Otherwise a program would start services that keep
# its output open, and ctest would wait for them.
trap 'wineserver -k >/dev/null 2>&1 || true' EXIT
wineserver -p >"$folder/log" 2>&1 || echo "wine's server stays no longer than its programs"
quietly wine wineboot -i
# Without AVX, which is the same code and the slowest to compile.
quietly cmake -S "$tree" -B "$folder/build" -G Ninja "${toolchain[@]}" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOMPUTE_CPU_OPTIMISATION=-O1 -DCOMPUTE_CPU_VECTORS=OFF \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCOMPUTE_MPI=OFF -DCOMPUTE_BENCH=OFF -DCOMPUTE_DOCS=OFF \
  -DCOMPUTE_TESTS=ON -DCMAKE_INSTALL_PREFIX="$folder/prefix"
# Without base_thread_pool and ten more, which need what only POSIX has (tests/CMakeLists.txt).
tests=(base_alloc base_error base_json base_variable type_shape type_dtype kernel_program device_pool
  device_transfer device_kernel_cache tensor_tensor tensor_dlpack graph_builders graph_gradients
  io_npz context_context cpu_fit cpu_interpreter cpu_math generate_functions operations_cast
  operations_fourier operations_linalg operations_random operations_trees operations_volume plan_run plan_call plan_pools eager_eager fit_run fit_spots batch_batch group_collectives model_run model_operators model_classical
  nn_layers train_trainer threads_plans)
quietly cmake --build "$folder/build" --target compute compute-cpu compute-null compute-cuda \
  compute-opencl  compute-run compute-info compute-tune compute-conformance compute-pages compute-interface \
  "${tests[@]}"
(cd "$folder/build" && ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --tests-regex "^($(IFS='|'; echo "${tests[*]}"))\$")

# The library and the modules need nothing that Windows lacks.
for file in "$folder/build/bin/libcompute.dll" "$folder"/build/bin/compute/*.dll; do
  needed=$($target-objdump -p "$file" | sed -n 's/^\tDLL Name: //p')
  echo "$(basename "$file") needs" $needed
  ! grep -viE '^(kernel32|msvcrt|api-ms-win-.*)\.dll$' <<<"$needed"
done

# OpenCL.dll is the driver's. Without it the module says so. wine has one for this machine's drivers.
if [[ -e $folder/build/bin/compute/libcompute-opencl.dll ]]; then
  ask() { wine "$folder/build/bin/compute-info.exe" | tr -s ' \r\n' ' '; }
  without=$(WINEDLLOVERRIDES="opencl=" ask)
  [[ $without == *"opencl: no OpenCL loader: OpenCL.dll: "* && $without != *opencl:0* ]] ||
    { echo "without OpenCL.dll: $without"; exit 1; }
  if [[ $(ask) == *opencl:0* ]]; then
    wine "$folder/build/bin/compute-conformance.exe" --quiet opencl | tail -1
  else
    echo "OpenCL was not run: wine finds no device (Debian: pocl-opencl-icd)"
  fi
fi

# A project for Windows finds the package; its program runs from a folder with letters of all kinds.
unset COMPUTE_CACHE_DIR # ctest's is no absolute path of Windows
for component in runtime development; do
  quietly cmake --install "$folder/build" --component $component
done
mkdir -p "$folder/user"
cat >"$folder/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(user C)
find_package(compute REQUIRED)
add_executable(hello ${TREE}/docs/examples/hello.c)
target_link_libraries(hello PRIVATE compute::compute)
END
quietly cmake -S "$folder/user" -B "$folder/user/build" "${toolchain[@]}" -DTREE="$tree" \
  -DCMAKE_FIND_ROOT_PATH="$folder/prefix"
quietly cmake --build "$folder/user/build"
place="$folder/Größe 数"
rm -rf "$place"
mkdir "$place"
cp -r "$folder/prefix/bin/." "$folder/user/build/hello.exe" "$place"
(cd "$place" && env -u COMPUTE_BACKEND_PATH wine hello.exe)
