# SPDX-License-Identifier: MIT
# check_readme.py, on its days (share.sh). ctest starts this: TREE BUILD_DIR SCRATCH_DIR.
set -euo pipefail
source "$1/tests/support/harness/share.sh"
exec python3 "$1/tests/docs/check_readme.py" "$@"
