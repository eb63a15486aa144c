# SPDX-License-Identifier: MIT
# Runs check_readme.py on its days (share.sh), with one or the other release of Debian. Started by ctest:
# TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
source "$1/tests/support/harness/share.sh"
for release in $(printf '12\n13\n' | share_lines 2); do
  python3 "$1/tests/docs/check_readme.py" "$1" "$2" "$3" "$release"
done
