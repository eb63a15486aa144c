# SPDX-License-Identifier: MIT
# Compares with numbers that libtorch computes now, and loads libcompute's weights into PyTorch's
# network. Started by ctest: VALUES TRAINING SCRATCH_DIR REFERENCE: the programs of the two tests, the
# folder for the second one's weights, and the program that calls libtorch, empty if there is none.
set -euo pipefail
values=$1 training=$2 scratch=$3 reference=$4
if [ -z "$reference" ]; then
  echo "skipped: libtorch is not installed (Debian: libtorch-dev), or there is no C++ compiler"
  exit 77
fi
"$reference" values "$scratch/live.safetensors"
export COMPUTE_TORCH_VALUES=$scratch/live.safetensors
"$values"
"$training"
"$reference" check "$scratch/weights.safetensors" "$scratch/result.safetensors"
