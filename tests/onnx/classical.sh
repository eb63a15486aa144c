# SPDX-License-Identifier: MIT
# Models of scikit-learn, XGBoost and LightGBM against the packages' predictions: converted to ONNX, and
# as the packages save trees.
# The packages are in a virtual environment in the scratch folder, which is kept. Started by ctest:
# TREE BUILD_DIR SCRATCH_DIR LIBRARY TREES_TOOL.
set -euo pipefail
tree=$1 scratch=$3 library=$4 tool=$5
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnx onnxruntime scikit-learn skl2onnx onnxmltools xgboost lightgbm \
  pandas
"$python" -c 'import onnxmltools, onnxruntime, skl2onnx, lightgbm, xgboost' 2>/dev/null ||
  skip "scikit-learn, XGBoost and LightGBM cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
"$python" "$tree/tests/onnx/classical.py" "$library"
"$python" "$tree/tests/onnx/tree_files.py" "$tool" "$scratch/trees"
