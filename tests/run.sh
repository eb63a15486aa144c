#!/bin/bash
# Runs every test of libcompute on a fresh or a used machine; see --help.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/support/setup.sh"

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [--quick] [--build DIR] [--help] [-- CTEST-ARGUMENT…]

Installs the Debian packages that are missing (as root, or with sudo; otherwise it prints the
apt-get line and stops), configures, builds, installs into DIR/prefix and runs the tests. The last
lines are ctest's summary; the exit status is 0 if every test passed.

  --quick       leaves out the builds with sanitizers and with clang, valgrind, and long tests
  --build DIR   build folder (default: build/ beside tests/)
  --            what follows goes to ctest: -R plan, say, for tests whose name contains "plan"

COMPUTE_TEST_DEVICE names the device under test (default: cpu).
TEXT
}

build=$SETUP_ROOT/build
select=()
while (($#)); do
  case $1 in
  --quick) select+=(--label-regex '^quick$') ;;
  --build)
    (($# > 1)) || { usage >&2; exit 2; }
    build=$(realpath -m "$2")
    shift
    ;;
  --help | -h) usage; exit 0 ;;
  --) shift; select+=("$@"); break ;;
  *) usage >&2; exit 2 ;;
  esac
  shift
done

setup_packages "${SETUP_BUILD_PACKAGES[@]}" "${SETUP_TEST_PACKAGES[@]}"
setup_build "$build" -DCOMPUTE_TESTS=ON
exec ctest --test-dir "$build" --parallel "$(nproc)" --output-on-failure --no-tests=error \
  "${select[@]}"
