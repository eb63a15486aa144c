# SPDX-License-Identifier: MIT
# libcompute for another processor: the core, the CPU module and their tests, cross-built and run
# under qemu-user. This takes some thirty times as long as native code, so only some tests run. They
# run on several processors: with all instructions that kernels choose at run time, with some, and
# with none. Started by ctest: TREE BUILD_DIR SCRATCH_DIR PROCESSOR, which is aarch64 or riscv64. Exits with 77
# if something is missing.
set -euo pipefail
tree=$1 processor=$4 folder=$2/$4
source "$tree/tests/support/harness/debian_fetch.sh"
source "$tree/tests/support/harness/needs.sh"
source "$tree/tests/support/harness/share.sh"
quietly() { "$@" >"$folder/log" 2>&1 || { tail -50 "$folder/log"; echo "failed: $*"; exit 1; }; }

target=$processor-linux-gnu compiler=$processor-linux-gnu-gcc
needs "$compiler" "gcc-$target"
cross=$compiler
[[ -e /usr/$target/include/stdio.h ]] || skip "no C library for $processor (Debian: libc6-dev-*-cross)"
needs "qemu-$processor" qemu-user
unset CFLAGS LDFLAGS LD_LIBRARY_PATH
mkdir -p "$folder"
root=$folder/root complete=$folder/root/complete-jansson
case $processor in
aarch64)
  architecture=AArch64
  if [[ ! -e $complete ]]; then
    fetch_packages "$folder" arm64 libcmocka-dev libcmocka0 zlib1g-dev zlib1g libmd-dev libmd0 \
      libjansson-dev libjansson4 ||
      skip "the packages of zlib, libmd, jansson and cmocka for arm64 cannot be had"
  fi
  libraries=$root/usr/lib/$target:$root/lib/$target
  export PKG_CONFIG_LIBDIR=$root/usr/lib/$target/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
  options=(-DCMAKE_LIBRARY_ARCHITECTURE="$target")
  tests=(cpu_quantized_gemm)
  # Nothing here uses SVE: the product is the same with it and without.
  models=("max bf16" "cortex-a76 dotprod" "cortex-a53 neon")
  sets=("max neon" "max dotprod" "max i8mm" "max,sve=off bf16")
  ;;
riscv64)
  # Debian 12 has no packages for it. Without cpu_quantized_gemm: portable C sums four rows with
  # weights of a few bits in another order than more rows, and the test expects the same bits.
  architecture=RISC-V
  needs make make
  if [[ ! -e $complete ]]; then
    fetch_sources "$folder" cmocka zlib libmd jansson ||
      skip "the sources of zlib, libmd, jansson and cmocka cannot be had"
    CC=$compiler CFLAGS="-O2 -fPIC" quietly build_libraries "$folder" "$root" "$target"
    quietly cmake -S "$folder/jansson" -B "$folder/jansson/build" -DCMAKE_SYSTEM_NAME=Linux \
      -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="-O2 -fPIC" -DJANSSON_WITHOUT_TESTS=ON \
      -DJANSSON_EXAMPLES=OFF -DJANSSON_BUILD_DOCS=OFF -DCMAKE_INSTALL_PREFIX="$root"
    quietly cmake --build "$folder/jansson/build" --target install
  fi
  libraries=$root/lib
  export PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
  options=(-DCMAKE_C_FLAGS="-isystem $root/include" -DCMAKE_PREFIX_PATH="$root")
  tests=() sets=()
  models=("rv64,v=false scalar")
  # GCC 12 makes no vectors. Clang 17 or newer does, and so does GCC 14.
  for clang in clang-{23..17}; do command -v "$clang" >/dev/null && break; done
  if command -v "$clang" >/dev/null; then
    cross=$clang
    options+=(-DCMAKE_C_COMPILER_TARGET="$target")
    vectors=rv64,v=true,vext_spec=v1.0,vlen
    # qemu 7.2 ends with an assertion at this conversion of floats, qemu 10.0 does not.
    echo 'int main(void) { __asm__ volatile("vsetivli zero, 4, e32, m1, ta, ma\n vfcvt.rtz.x.f.v v8, v8"); }' |
      "$clang" --target="$target" -march=rv64gcv -x c -o "$folder/probe" -
    if QEMU_CPU=$vectors=128 "qemu-$processor" -L "/usr/$target" "$folder/probe" 2>/dev/null; then
      models=("$vectors=128 rvv" "$vectors=256 rvv" "rv64,v=false scalar")
    else
      echo "with RISC-V's vectors only one product: this qemu-$processor cannot convert floats (10.0 can)"
      sets=("$vectors=128 rvv" "$vectors=256 rvv")
    fi
    sets+=("$vectors=128 scalar")
  else
    echo "without RISC-V's vectors: no clang 17 or newer"
  fi
  ;;
*) echo "unknown processor: $processor"; exit 1 ;;
esac
touch "$complete"

# The CPU module at -O2: GCC 12 for aarch64 does not end with the running sums of f64 at -O1.
quietly cmake -S "$tree" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOMPUTE_CPU_OPTIMISATION=-O2 \
  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor" -DCMAKE_C_COMPILER="$cross" \
  -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-$processor;-L;/usr/$target;-E;LD_LIBRARY_PATH=$libraries" \
  -DCOMPUTE_OPENCL_INCLUDE= -DCOMPUTE_CUDA=OFF -DCOMPUTE_MPI=OFF -DCOMPUTE_TESTS=ON \
  -DCOMPUTE_BENCH=OFF "${options[@]}"
# Without cpu_fit: on aarch64 one of its fits reaches the step limit with another status than the
# reference.
tests+=(base_error type_shape kernel_program device_pool tensor_tensor graph_builders io_npz
  cpu_interpreter cpu_map cpu_conv_direct cpu_requantize operations_cast
  operations_fourier operations_linalg operations_trees plan_run public_use)
# Products repeat their samples with each set that the processor has.
products=(cpu_gemm cpu_gemm_runs)
# On each processor: its own products, and the plans that give the same bits everywhere.
each=(cpu_gemm_narrow operations_portable)
quietly cmake --build "$folder/build" --target compute compute-cpu compute-conformance \
  "${tests[@]}" "${products[@]}" "${each[@]}"
kind=$(readelf -h "$folder/build/lib/libcompute.so" | sed -n 's/ *Machine: *//p')
[[ $kind == "$architecture" ]] || { echo "libcompute.so is for $kind"; exit 1; }
"$compiler" -I"$tree/include" -o "$folder/processor" "$tree/tests/install/processor.c" \
  -L"$folder/build/lib" -lcompute -Wl,--allow-shlib-undefined
cd "$folder/build"
run_tests() {
  ctest --parallel "$(nproc)" --output-on-failure --no-tests=error \
    --tests-regex "^($(IFS='|'; echo "$*"))\$"
}
# All kinds of kernels, a few of each.
conformance() {
  local file=$folder/conformance-$1
  "qemu-$processor" -L "/usr/$target" -E "LD_LIBRARY_PATH=$folder/build/lib:$libraries" \
    -E "COMPUTE_BACKEND_PATH=$folder/build/lib/compute" "$folder/build/bin/compute-conformance" \
    --quick --quiet --expect "$tree/tests/backend/expect/cpu.txt" cpu >"$file" ||
    { tail -50 "$file"; exit 1; }
  echo "$QEMU_CPU: compute-conformance: $(tail -1 "$file")"
}
# One product with the instruction set SET on the processor QEMU_CPU.
product() { # SET [NAME=VALUE]: a variable that chooses the set
  local found
  found=$(env ${2+"$2"} "qemu-$processor" -L "/usr/$target" \
    -E "LD_LIBRARY_PATH=$folder/build/lib:$libraries" "$folder/processor") ||
    { echo "no product on $QEMU_CPU: $found"; exit 1; }
  echo "$QEMU_CPU: $found"
  [[ $found == "$1 -3264000" ]] || { echo "expected on $QEMU_CPU: $1 -3264000"; exit 1; }
}
export QEMU_CPU
for model in "${sets[@]}"; do
  read -r QEMU_CPU expected <<<"$model"
  product "$expected" "COMPUTE_CPU_ISA=$expected"
done
for model in "${models[@]}"; do
  read -r QEMU_CPU expected <<<"$model"
  product "$expected"
  COMPUTE_TEST_SAMPLES=40 run_tests "${each[@]}"
done
# With no instruction that the kernels choose, and with every one.
((${#models[@]} == 1)) || conformance "$expected"
read -r QEMU_CPU expected <<<"${models[0]}"
conformance "$expected"
run_tests "${tests[@]}"
COMPUTE_TEST_SAMPLES=40 run_tests "${products[@]}"
