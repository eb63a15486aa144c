# SPDX-License-Identifier: MIT
# Exchange of tensors with Python libraries through ctypes. Started by ctest: TREE BUILD_DIR SCRATCH_DIR
# [newest]. Without "newest", the interpreter is COMPUTE_TEST_PYTHON or Debian's, with its installed
# libraries. With "newest", a virtual environment has the newest libraries from PyPI, except PyTorch, which
# is too large.
set -euo pipefail
tree=$1 library=$2/lib/libcompute.so scratch=$3 which=${4-}
. "$tree/tests/support/harness/environment.sh"
mkdir -p "$scratch"
python=${COMPUTE_TEST_PYTHON:-/usr/bin/python3}
[[ $which != newest ]] || python_environment "$scratch" numpy jax
[[ -x $python ]] || skip "there is no $python"
export COMPUTE_DEVICE=cpu JAX_PLATFORMS=cpu LD_LIBRARY_PATH=$2/lib${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH}
exec "$python" "$tree/tests/python/exchange.py" "$library"
