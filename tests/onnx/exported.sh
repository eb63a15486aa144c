# SPDX-License-Identifier: MIT
# Models that the library writes, read by ONNX Runtime and onnx, which a virtual environment in the
# scratch folder gets and keeps. ctest starts this: TREE BUILD_DIR SCRATCH_DIR PROGRAM, the program of
# tests/model/test_export.c.
set -euo pipefail
tree=$1 scratch=$3 program=$4
skip() { echo "skipped: $1"; exit 77; }
mkdir -p "$scratch"
python=$scratch/venv/bin/python
if ! [[ -x $python ]]; then
  python3 -m venv "$scratch/venv" >"$scratch/log" 2>&1 ||
    skip "no virtual environment for Python can be made (Debian: python3-venv)"
fi
# Without the network, what an earlier run has installed will do.
"$python" -m pip install --quiet --disable-pip-version-check --timeout 30 --retries 1 --upgrade onnx \
  onnxruntime >"$scratch/log" 2>&1 || true
"$python" -c 'import onnx, onnxruntime' 2>/dev/null ||
  skip "onnx and onnxruntime cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
rm -rf "$scratch/models"
mkdir "$scratch/models"
COMPUTE_EXPORT_FILES=$scratch/models "$program" >"$scratch/log" 2>&1 ||
  { tail -n 20 "$scratch/log"; exit 1; }
"$python" "$tree/tests/onnx/exported.py" "$scratch/models"
