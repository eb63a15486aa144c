# SPDX-License-Identifier: MIT
# For tests with optional requirements: they are skipped with a reason. Source this file.

skip() { echo "skipped: $1"; exit 77; }

needs() { # COMMAND PACKAGE
  command -v "$1" >/dev/null || skip "no $1 (Debian: $2)"
}
