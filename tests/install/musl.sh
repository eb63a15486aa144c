# SPDX-License-Identifier: MIT
# libcompute with another C library: the core, the CPU module and their tests, built with musl-gcc,
# and hello.c linked statically. zlib, libmd and cmocka, which Debian has for glibc only, are built
# from Debian's sources. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. Exits with 77 if something is
# missing.
set -euo pipefail
tree=$1 folder=$2/musl
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }

needs musl-gcc musl-tools
needs make make
unset CFLAGS LDFLAGS LD_LIBRARY_PATH
mkdir -p "$folder"
root=$folder/root
if [[ ! -e $root/complete ]]; then
  fetch_sources "$folder" cmocka zlib libmd || skip "the sources of zlib, libmd and cmocka cannot be had"
  export CC=musl-gcc CFLAGS="-O2 -fPIC"
  quietly build_libraries "$folder" "$root"
  unset CFLAGS
  # The kernel's headers (linux-libc-dev) do not depend on a C library.
  ln -sfn /usr/include/linux /usr/include/asm-generic "$root/include/"
  ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" "$root/include/"
  touch "$root/complete"
fi

export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
# Nothing from /usr/include; without AVX, which is the same code and the slowest to compile.
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOMPUTE_CPU_OPTIMISATION=-O1 -DCMAKE_C_COMPILER=musl-gcc
  -DCMAKE_C_FLAGS="-isystem $root/include" -DCMAKE_PREFIX_PATH="$root" -DCOMPUTE_OPENCL_INCLUDE= -DCOMPUTE_MPI=OFF
  -DCOMPUTE_CPU_VECTORS=OFF -DCOMPUTE_BENCH=OFF)
quietly cmake -S "$tree" -B "$folder/build" "${options[@]}" -DCOMPUTE_TESTS=ON
tests=(base_alloc base_error base_log base_thread_pool base_variable type_shape kernel_program
  device_pool tensor_tensor graph_builders io_csv io_npz cache_disk_cache context_context
  cpu_fit cpu_gemm cpu_interpreter operations_cast operations_matmul operations_reduction
  plan_run job_job eager_eager public_use fit_run train_trainer)
quietly cmake --build "$folder/build" --target compute "${tests[@]}"
(cd "$folder/build" && ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --tests-regex "^($(IFS='|'; echo "${tests[*]}"))\$")

# A program without a loader: the CPU backend is in it, and no other can be loaded.
quietly cmake -S "$tree" -B "$folder/static" "${options[@]}" -DCMAKE_C_FLAGS_RELEASE=-O0 -DCOMPUTE_CPU_OPTIMISATION=-O0 -DCOMPUTE_TESTS=OFF \
  -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX="$folder/prefix"
quietly cmake --build "$folder/static"
quietly cmake --install "$folder/static"
export PKG_CONFIG_LIBDIR=$folder/prefix/lib/pkgconfig
# shellcheck disable=SC2046
musl-gcc -static "$tree/docs/examples/hello.c" -L"$root/lib" \
  $(pkg-config --static --cflags --libs compute) -o "$folder/hello"
"$folder/hello"
