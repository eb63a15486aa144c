# SPDX-License-Identifier: MIT
# The node tests of the newest onnx on PyPI, and the decoder example. onnx is in a virtual environment
# in the scratch folder, which is kept. Started by ctest: TREE BUILD_DIR SCRATCH_DIR RUNNER DECODE.
# COMPUTE_UPDATE_DOCS=1 updates the table in docs/reference/onnx.md.
set -euo pipefail
tree=$1 scratch=$3 runner=$4 decode=$5
. "$tree/tests/support/harness/environment.sh"
python_environment "$scratch" onnx
version=$("$python" -c 'import onnx; print(onnx.__version__)' 2>/dev/null) ||
  skip "onnx cannot be installed from PyPI: $(tail -n 1 "$scratch/log")"
nodes=$scratch/nodes-$version
if ! [[ -d $nodes ]]; then
  rm -rf "$scratch"/nodes-*
  "$python" "$tree/tests/onnx/generate.py" "$nodes.part" 2>"$scratch/log" ||
    { tail -n 5 "$scratch/log"; exit 1; }
  mv "$nodes.part" "$nodes"
fi
arguments=(--expect "$tree/tests/onnx/expected.txt")
table=()
if [[ ${COMPUTE_UPDATE_DOCS-} == 1 ]]; then
  table=(--table "$tree/docs/reference/onnx.md" --title "The node tests of onnx $version")
fi
result=0
"$runner" "${arguments[@]}" --complete "${table[@]}" "$nodes" || result=$?
"$runner" --constants "${arguments[@]}" "$nodes" || result=$?
if [[ -x $decode ]]; then "$python" "$tree/tests/onnx/decode.py" "$tree" "$decode" "$scratch" || result=$?; fi
exit "$result"
