# SPDX-License-Identifier: MIT
# libcompute for riscv64: the core, the CPU module in portable C and their tests, cross-built and
# run under qemu-user, some thirty times as slow as native code. zlib, libmd and cmocka are built
# from Debian's sources: Debian 12 has no packages for riscv64. Started by ctest: TREE BUILD_DIR
# SCRATCH_DIR. Exits with 77 if something is missing.
set -euo pipefail
tree=$1 folder=$2/riscv64
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }

compiler=riscv64-linux-gnu-gcc
needs $compiler gcc-riscv64-linux-gnu
[[ -e /usr/riscv64-linux-gnu/include/stdio.h ]] ||
  skip "no C library for riscv64 (Debian: libc6-dev-riscv64-cross)"
needs qemu-riscv64 qemu-user
needs make make
unset CFLAGS LDFLAGS LD_LIBRARY_PATH
mkdir -p "$folder"
root=$folder/root
if [[ ! -e $root/complete ]]; then
  fetch_sources "$folder" cmocka zlib libmd || skip "the sources of zlib, libmd and cmocka cannot be had"
  CC=$compiler CFLAGS="-O2 -fPIC" quietly build_libraries "$folder" "$root" riscv64-linux-gnu
  touch "$root/complete"
fi

export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
quietly cmake -S "$tree" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOMPUTE_CPU_OPTIMISATION=-O1 \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=riscv64 -DCMAKE_C_COMPILER=$compiler \
  -DCMAKE_C_FLAGS="-isystem $root/include" -DCMAKE_PREFIX_PATH="$root" \
  -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-riscv64;-L;/usr/riscv64-linux-gnu;-E;LD_LIBRARY_PATH=$root/lib" \
  -DCOMPUTE_OPENCL_INCLUDE= -DCOMPUTE_MPI=OFF -DCOMPUTE_TESTS=ON -DCOMPUTE_BENCH=OFF
tests=(base_error type_shape kernel_program device_pool tensor_tensor graph_builders io_npz
  cpu_interpreter cpu_map cpu_conv_direct cpu_quantized_gemm cpu_requantize operations_cast
  plan_run public_use)
quietly cmake --build "$folder/build" --target compute "${tests[@]}"
kind=$(readelf -h "$folder/build/lib/libcompute.so" | sed -n 's/ *Machine: *//p')
[[ $kind == RISC-V ]] || { echo "libcompute.so is for $kind"; exit 1; }
cd "$folder/build"
ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --tests-regex "^($(IFS='|'; echo "${tests[*]}"))\$"
