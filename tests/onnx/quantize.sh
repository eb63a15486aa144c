# SPDX-License-Identifier: MIT
# Models quantized by compute_model_quantize, in ONNX Runtime and here. The packages are in a virtual
# environment in the scratch folder, which is kept. Started by ctest: TREE BUILD_DIR SCRATCH_DIR LIBRARY.
set -euo pipefail
tree=$1 scratch=$3 library=$4
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnx onnxruntime
"$python" -c 'import onnx, onnxruntime' 2>/dev/null ||
  skip "onnx and onnxruntime cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
"$python" "$tree/tests/onnx/quantize.py" "$library"
