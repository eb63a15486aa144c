# SPDX-License-Identifier: MIT
# Each public header compiles alone, as C11 and as C++17, without a warning. Started by ctest: TREE
# BUILD_DIR SCRATCH_DIR.
set -euo pipefail
tree=$1 generated=$2/generated scratch=$3
warnings=(-Wall -Wextra -pedantic -Werror -fsyntax-only)
source "$tree/tests/support/harness/needs.sh"
cxx=$(command -v g++ || command -v clang++ || true)

mkdir -p "$scratch"
for folder in "$tree/include" "$generated"; do
  [ -d "$folder/compute" ] || continue
  for header in "$folder"/compute/*.h; do
    name=compute/$(basename "$header")
    printf "#include \"%s\"\ntypedef int not_empty;\n" "$name" >"$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cc"
    echo "$name"
    "$CC" -std=c11 "${warnings[@]}" -I"$tree/include" -I"$generated" "$scratch/alone.c"
    [[ -z $cxx ]] || "$cxx" -std=c++17 "${warnings[@]}" -I"$tree/include" -I"$generated" "$scratch/alone.cc"
  done
done
[[ -n $cxx ]] || skip "the headers compile as C; there is no C++ compiler (Debian: g++)"
