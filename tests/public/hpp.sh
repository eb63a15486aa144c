# SPDX-License-Identifier: MIT
# Compiles and runs hpp.cpp with the available compilers, as C++17 and C++20. Started by ctest: TREE
# BUILD_DIR SCRATCH_DIR. Exits with 77 if there is no C++ compiler.
set -euo pipefail
tree=$1 build=$2 scratch=$3 tried=0
source "$tree/tests/support/harness/needs.sh"
mkdir -p "$scratch"
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || continue
  for standard in c++17 c++20; do
    "$compiler" -std="$standard" -Wall -Wextra -pedantic -Werror -I"$tree/include" \
      -I"$build/generated" "$tree/tests/public/hpp.cpp" -L"$build/lib" -lcompute \
      -Wl,-rpath,"$build/lib" -o "$scratch/hpp"
    COMPUTE_DEVICE=cpu "$scratch/hpp"
    echo "$compiler -std=$standard: good"
    tried=1
  done
done
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || continue
  errors=$("$compiler" -std=c++14 -fsyntax-only -I"$tree/include" -I"$build/generated" -x c++ \
    "$tree/include/compute/compute.hpp" 2>&1 | grep -c 'error:' || true)
  [[ $errors == 1 ]] || { echo "$compiler -std=c++14: $errors errors instead of one"; exit 1; }
done
((tried)) || skip "no C++ compiler (Debian: g++)"
