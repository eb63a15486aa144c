#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Instructions of one operation under qemu-user, by instruction set: measure.sh PROCESSOR BUILD
# PREFIX [OPERATION…], each "KIND M N K" of products.c; without any, some products. PROCESSOR is
# aarch64 or riscv64, BUILD a cross-build of libcompute, PREFIX has the libraries of that processor.
# CC is the cross-compiler. An operation's count is the difference between
# five runs and one, divided by four, with one thread. Prints a table.
set -euo pipefail
processor=$1 build=$(realpath "$2") prefix=$(realpath "$3") here=$(dirname "$(realpath "$0")")
tree=$here/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC -fvisibility=hidden -o "$work/count.so" "$here/count.c"
${CC:-$processor-linux-gnu-gcc} -O2 -I"$tree/include" -I"$build/include" -o "$work/products" \
  "$here/products.c" -L"$build/lib" -lcompute -Wl,--allow-shlib-undefined

case $processor in
aarch64) sets=(neon dotprod i8mm bf16) cpu=max ;;
riscv64) sets=(scalar rvv) cpu=rv64,v=true,vext_spec=v1.0,vlen=${VLEN:-128} ;;
*) echo "unknown processor: $processor"; exit 1 ;;
esac
folders=$build/lib:$(find "$prefix" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
# Prints the instructions and the checksum of KIND M N K TIMES with the set of instructions $1.
count() {
  COMPUTE_CPU_ISA=$1 "qemu-$processor" -cpu "$cpu" -L "/usr/$processor-linux-gnu" \
    -E "LD_LIBRARY_PATH=$folders" -E COMPUTE_THREADS=1 -E COMPUTE_DEVICE=cpu -E COMPUTE_BLAS=none \
    -E COMPUTE_CACHE_LIMIT=0 -plugin "$work/count.so" "$work/products" "${@:2}" 2>&1 |
    awk '/^instructions/ { n = $2 } length == 8 && /^[0-9a-f]+$/ { t = $0 } { all = all $0 "\n" }
      END { if (n && t) print n, t; else printf "%s", all >"/dev/stderr" }'
}
echo "# $("qemu-$processor" --version | head -1), -cpu $cpu"
echo "# commit $(git -C "$tree" rev-parse --short HEAD)"
echo "# $(date -u +%F), $(${CC:-$processor-linux-gnu-gcc} --version | head -1)"
echo "# KIND M N K: instructions of an operation, and a checksum of its result"
operations=("${@:4}")
((${#operations[@]})) ||
  operations=("f32 128 256 256" "bf16 128 256 256" "u8i8 128 256 256" "i8i8 128 256 256"
    "u8i8 1 1024 1024" "bf16 1 1024 1024" "q4 1 1024 1024" "q4 32 512 512")
for product in "${operations[@]}"; do
  for set in "${sets[@]}"; do
    # shellcheck disable=SC2086 # words
    read -r one _ < <(count "$set" $product 1)
    # shellcheck disable=SC2086
    read -r five sum < <(count "$set" $product 5)
    printf '%-18s %-8s %12d %s\n' "$product" "$set" $(((five - one) / 4)) "$sum"
  done
done
