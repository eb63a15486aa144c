# SPDX-License-Identifier: MIT
# Models of scikit-learn, XGBoost and LightGBM, converted to ONNX, against the packages' predictions.
# The packages are in a virtual environment in the scratch folder, which is kept. Started by ctest:
# TREE BUILD_DIR SCRATCH_DIR LIBRARY.
set -euo pipefail
tree=$1 scratch=$3 library=$4
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnx onnxruntime scikit-learn skl2onnx onnxmltools xgboost lightgbm
"$python" -c 'import onnxmltools, onnxruntime, skl2onnx, lightgbm, xgboost' 2>/dev/null ||
  skip "scikit-learn, XGBoost and LightGBM cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
"$python" "$tree/tests/onnx/classical.py" "$library"
