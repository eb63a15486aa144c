# SPDX-License-Identifier: MIT
# ONNX Runtime and onnx read the library's exported models. Both are in a virtual environment in the
# scratch folder, which is kept. Started by ctest: TREE BUILD_DIR SCRATCH_DIR PROGRAM; PROGRAM is built
# from tests/model/test_export.c.
set -euo pipefail
tree=$1 scratch=$3 program=$4
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnx onnxruntime
"$python" -c 'import onnx, onnxruntime' 2>/dev/null ||
  skip "onnx and onnxruntime cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
rm -rf "$scratch/models"
mkdir "$scratch/models"
COMPUTE_EXPORT_FILES=$scratch/models "$program" >"$scratch/log" 2>&1 ||
  { tail -n 20 "$scratch/log"; exit 1; }
"$python" "$tree/tests/onnx/exported.py" "$scratch/models"
