# SPDX-License-Identifier: MIT
# tests/run.sh and bench/run.sh in a minimal Debian, on their days (share.sh), one of them per day. Started by
# ctest: TREE BUILD_DIR SCRATCH_DIR RELEASE.
set -euo pipefail
source "$1/tests/support/harness/share.sh"
mapfile -t commands < <(printf 'tests/run.sh\nbench/run.sh\n' | share_lines 2)
exec python3 "$1/tests/setup/check_debian.py" "$@" "${commands[@]}"
