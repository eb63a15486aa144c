# SPDX-License-Identifier: MIT
# The comparison with numbers that libtorch computes now, and weights of libcompute in PyTorch's
# network. ctest starts this: VALUES TRAINING SCRATCH_DIR REFERENCE, the programs of the two tests, the
# folder where the second leaves weights, and what calls libtorch, empty without it.
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
