# SPDX-License-Identifier: MIT
# For scripts that need Python packages from PyPI: source this file. It makes a virtual environment
# in the script's folder and keeps it for the next run.

source "$(dirname "${BASH_SOURCE[0]}")/needs.sh"

# python_environment FOLDER [PIP_OPTION...] PACKAGE...: sets `python`. Without a network, it uses
# the packages of an earlier run; callers check that they are present.
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
