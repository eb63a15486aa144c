# SPDX-License-Identifier: MIT
# Tests of the Python package with pytest, and the programs of docs/guide/python.md. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. The
# interpreter is COMPUTE_TEST_PYTHON or Debian's.
set -euo pipefail
tree=$1 build=$2 scratch=$3
. "$tree/tests/support/harness/environment.sh"
mkdir -p "$scratch"
python=${COMPUTE_TEST_PYTHON:-/usr/bin/python3}
[[ -x $python ]] || skip "there is no $python"
[[ -f $build/python/libcompute/_core.abi3.so ]] || skip "the Python package was not built (Debian: python3-dev)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$python is older than 3.11"
"$python" -c 'import numpy, pytest' 2>"$scratch/log" ||
  skip "$(tail -n 1 "$scratch/log") (Debian: python3-numpy, python3-pytest)"
export PYTHONPATH=$build/python COMPUTE_DEVICE=cpu PYTHONDONTWRITEBYTECODE=1
cd "$scratch"
"$python" -m pytest -q -p no:cacheprovider "$tree/tests/python/package"
"$python" "$tree/tests/python/guide.py" "$tree" "$scratch"
