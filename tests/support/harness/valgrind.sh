# SPDX-License-Identifier: MIT
# Runs test programs under valgrind: no invalid access, no use of uninitialised memory, nothing
# lost. ctest starts this: TREE BUILD_DIR SCRATCH_DIR PROGRAM….
#
# What OpenBLAS and the C library keep until the process ends stays reachable and is not counted.
set -euo pipefail
build=$2
source "$1/tests/support/harness/needs.sh"
shift 3

needs valgrind valgrind
for program in "$@"; do
  echo "valgrind: $program"
  valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
    --show-leak-kinds=definite,indirect --child-silent-after-fork=yes "$build/tests/bin/$program"
done
