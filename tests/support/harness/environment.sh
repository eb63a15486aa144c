# SPDX-License-Identifier: MIT
# Sourced by scripts that need Python packages from PyPI: a virtual environment in a folder of theirs,
# which is kept for the next run.

source "$(dirname "${BASH_SOURCE[0]}")/needs.sh"

# python_environment FOLDER [PIP_OPTION...] PACKAGE...: sets `python`. Without the network, what an
# earlier run has installed will do; callers look whether it is there.
python_environment() {
  local scratch=$1
  shift
  mkdir -p "$scratch"
  python=$scratch/venv/bin/python
  if ! [[ -x $python ]]; then
    python3 -m venv "$scratch/venv" >"$scratch/log" 2>&1 ||
      skip "no virtual environment for Python can be made (Debian: python3-venv)"
  fi
  "$python" -m pip install --quiet --disable-pip-version-check --timeout 30 --retries 1 --upgrade "$@" \
    >"$scratch/log" 2>&1 || true
}
