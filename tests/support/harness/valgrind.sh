# SPDX-License-Identifier: MIT
# Runs test programs under valgrind: no invalid access, no use of uninitialised memory, no leak.
# ctest starts this: TREE BUILD_DIR SCRATCH_DIR PROGRAM….
#
# Memory that OpenBLAS and the C library keep until the process ends is reachable and does not
# count.
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
