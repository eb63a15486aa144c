# SPDX-License-Identifier: MIT
# libcompute for aarch64: the core, the CPU module and their tests, cross-built and run under
# qemu-user. This takes some thirty times as long as native code, so only some tests run. Started by
# ctest: TREE BUILD_DIR SCRATCH_DIR. Exits with 77 if something is missing.
set -euo pipefail
tree=$1 folder=$2/aarch64
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }

compiler=aarch64-linux-gnu-gcc
needs $compiler gcc-aarch64-linux-gnu
[[ -e /usr/aarch64-linux-gnu/include/stdio.h ]] ||
  skip "no C library for aarch64 (Debian: libc6-dev-arm64-cross)"
needs qemu-aarch64 qemu-user
unset CFLAGS LDFLAGS
mkdir -p "$folder"
root=$folder/root
if [[ ! -e $root/complete ]]; then
  fetch_packages "$folder" arm64 libcmocka-dev libcmocka0 zlib1g-dev zlib1g libmd-dev libmd0 ||
    skip "the packages of zlib, libmd and cmocka for arm64 cannot be had"
  touch "$root/complete"
fi

libraries=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
# GCC 12 does not end with the running sums of f64 at -O1.
quietly cmake -S "$tree" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOMPUTE_CPU_OPTIMISATION=-O2 \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$compiler \
  -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=$libraries" \
  -DCOMPUTE_OPENCL_INCLUDE= -DCOMPUTE_MPI=OFF -DCOMPUTE_TESTS=ON -DCOMPUTE_BENCH=OFF
# Without cpu_fit: one of its fits reaches the step limit here with another status than the
# reference.
tests=(base_error type_shape kernel_program device_pool tensor_tensor graph_builders io_npz
  cpu_interpreter cpu_map cpu_conv_direct cpu_quantized_gemm cpu_requantize operations_cast
  plan_run public_use)
quietly cmake --build "$folder/build" --target compute "${tests[@]}"
kind=$(readelf -h "$folder/build/lib/libcompute.so" | sed -n 's/ *Machine: *//p')
[[ $kind == AArch64 ]] || { echo "libcompute.so is for $kind"; exit 1; }
cd "$folder/build"
ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
  --tests-regex "^($(IFS='|'; echo "${tests[*]}"))\$"
