# SPDX-License-Identifier: MIT
# Every public function that takes an object refuses the parent's in a forked child. ctest starts
# this: TREE BUILD_DIR SCRATCH_DIR FORKS.
set -euo pipefail
tree=$1 build=$2 scratch=$3 forks=$4

mkdir -p "$scratch"
cd "$scratch"
python3 "$tree/tests/process/fork_calls.py" "$tree/include" >rows.h
"$CC" -std=gnu11 -O1 -I. -I"$tree/include" -I"$build/generated" "$tree/tests/process/fork_calls.c" \
  -o fork_calls -L"$build/lib" -lcompute -pthread -Wl,-rpath,"$build/lib"
./fork_calls "$forks"
