# SPDX-License-Identifier: MIT
# In a forked child, every public function with an object parameter refuses the parent's object.
# Started by ctest: TREE BUILD_DIR SCRATCH_DIR FORKS.
set -euo pipefail
tree=$1 build=$2 scratch=$3 forks=$4

mkdir -p "$scratch"
cd "$scratch"
python3 "$tree/tests/process/fork_calls.py" "$tree/include" >rows.h
"$CC" -std=gnu11 -O1 -I. -I"$tree/include" -I"$build/generated" "$tree/tests/process/fork_calls.c" \
  -o fork_calls -L"$build/lib" -lcompute -pthread -Wl,-rpath,"$build/lib"
./fork_calls "$forks"
