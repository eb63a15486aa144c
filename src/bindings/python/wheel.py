# SPDX-License-Identifier: MIT
"""Makes a wheel of an installed tree.

    wheel.py STAGE VERSION FOLDER

STAGE is what `cmake --install --component python` has written. FOLDER gets the wheel. Where auditwheel and patchelf are
installed, it has the libraries that systems may lack, and the tag of the oldest glibc that it runs with (manylinux).
Otherwise its tag is this system's. Equal files give an equal wheel.
"""
import base64
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

METADATA = """Metadata-Version: 2.1
Name: libcompute
Version: {version}
Summary: Tensor graphs on CPU and GPU: arrays, gradients, ONNX models, training, fits
License: MIT
Requires-Python: >=3.11
Requires-Dist: numpy
Classifier: Programming Language :: Python :: 3
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed

Arrays of the array API standard, graphs, gradients, ONNX models, training and fits with libcompute.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: libcompute\nRoot-Is-Purelib: false\nTag: cp311-abi3-{platform}\n"
TIME = (1980, 1, 1, 0, 0, 0)


def files_of(stage):
    for folder, folders, names in os.walk(stage):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, stage), path


def make(stage, version, folder):
    """Writes the wheel and returns its path."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    info = f"libcompute-{version}.dist-info"
    path = os.path.join(folder, f"libcompute-{version}-cp311-abi3-{platform}.whl")
    os.makedirs(folder, exist_ok=True)
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name, content, mode=0o644):
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
        for name, source in files_of(stage):
            with open(source, "rb") as file:
                content = file.read()
            if name == "LICENSE":
                add(f"{info}/LICENSE", content)
            else:
                add(name, content, 0o755 if name.endswith(".so") or ".so." in name else 0o644)
        add(f"{info}/METADATA", METADATA.format(version=version).encode())
        add(f"{info}/WHEEL", WHEEL.format(platform=platform).encode())
        lines = record + [f"{info}/RECORD,,"]
        add(f"{info}/RECORD", ("\n".join(lines) + "\n").encode())
    return path


def repaired(path, folder):
    """The path of the wheel with the libraries that it needs; as it is without auditwheel."""
    if not importlib.util.find_spec("auditwheel") or not shutil.which("patchelf"):
        print("no auditwheel and patchelf: the wheel is for this system")
        return path
    with tempfile.TemporaryDirectory(dir=folder) as work:
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "-w", work, path], check=True)
        name = os.listdir(work)[0]
        os.replace(os.path.join(work, name), os.path.join(folder, name))
    if os.path.join(folder, name) != path:
        os.remove(path)
    return os.path.join(folder, name)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    stage, version, folder = sys.argv[1:]
    print(repaired(make(stage, version, folder), folder))


if __name__ == "__main__":
    main()
