# SPDX-License-Identifier: MIT
"""Lets pip build the wheel: `pip install src/bindings/python`. CMake builds it (python_wheel). The setting `build-dir`,
as in pip's `--config-settings build-dir=FOLDER`, names a build folder to keep; else it is temporary."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

TREE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DCOMPUTE_PYTHON=ON"] + [
    f"-DCOMPUTE_{part}=OFF" for part in ("PROGRAMS", "BENCH", "TESTS", "DOCS", "MPI", "NULL")]


def _build(folder, wheel_directory):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", TREE, "-B", folder, *generator, *OPTIONS, f"-DPython3_EXECUTABLE={sys.executable}"],
                   check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "python_wheel", "--parallel"], check=True)
    wheel = max(glob.glob(os.path.join(folder, "python", "wheels", "*.whl")), key=os.path.getmtime)
    shutil.copy(wheel, wheel_directory)
    return os.path.basename(wheel)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):  # pylint: disable=unused-argument
    """The name of the wheel, in wheel_directory."""
    kept = (config_settings or {}).get("build-dir")
    if kept:
        return _build(os.path.abspath(kept), wheel_directory)
    with tempfile.TemporaryDirectory() as folder:
        return _build(folder, wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    """There is none: the package is a part of libcompute's tree."""
    raise NotImplementedError("build the wheel from libcompute's tree")
