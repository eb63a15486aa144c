# SPDX-License-Identifier: MIT
"""Pastes the README's first block of commands into a minimal Debian 12 and compares what the program prints.

    check_readme.py TREE BUILD SCRATCH

Makes the system with debootstrap, once: BUILD/tests/debian-12.tar keeps it. Needs root, debootstrap and a package
mirror, the one that apt uses here; skipped (77) without. The settings of apt and the name server go into the
system's folder only, which is removed at the end.
"""
import os
import re
import shutil
import subprocess
import sys
import time

TREE, BUILD, SCRATCH = map(os.path.abspath, sys.argv[1:4])
SUITE = "bookworm"
BASE = os.path.join(BUILD, "tests", "debian-12.tar")
SYSTEM = os.path.join(SCRATCH, "system")
LOG = os.path.join(SCRATCH, "log.txt")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def fail(reason):
    with open(LOG, encoding="utf-8", errors="replace") as file:
        print("".join(file.readlines()[-40:]))
    sys.exit("FAILED: " + reason)


def logged(command, **more):
    with open(LOG, "ab") as file:
        return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False, **more).returncode


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def mirror():
    """Where apt gets Debian 12's main packages from here."""
    for line in output("apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)").splitlines():
        release, component, address = line.split()
        if (release, component) == (SUITE, "main"):
            return address
    return "http://deb.debian.org/debian"


def make_base():
    started = time.time()
    if logged(["debootstrap", "--variant=minbase", SUITE, SYSTEM, mirror()]):
        with open(LOG, encoding="utf-8", errors="replace") as file:
            words = file.read()
        if re.search("Failed getting release file|couldn't download|Couldn't download|Invalid Release", words):
            skip("debootstrap cannot reach the package mirror")
        if re.search("Operation not permitted|Cannot install into target|mknod", words):
            skip("debootstrap may not make a system here")
        fail("debootstrap")
    if logged(["tar", "--one-file-system", "-C", SYSTEM, "-cf", BASE + ".new", "."]):
        fail("packing the system")
    os.rename(BASE + ".new", BASE)
    print(f"made a minimal Debian 12 in {time.time() - started:.0f} s")


def settings():
    """What the system needs of this machine to reach the mirror."""
    acquire = output("apt-config", "dump")
    with open(os.path.join(SYSTEM, "etc/apt/apt.conf.d/90machine"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in acquire.splitlines() if line.startswith("Acquire::"))
    for path in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt", "etc/apt/auth.conf"):
        if os.path.exists("/" + path):
            os.makedirs(os.path.dirname(os.path.join(SYSTEM, path)), exist_ok=True)
            shutil.copyfile("/" + path, os.path.join(SYSTEM, path))


def inside(script):
    """Runs lines of sh in the system, with /proc if this machine allows it; it vanishes with the process."""
    enter = ["chroot", SYSTEM, "/bin/sh", "-e", "-c", script]
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0:
        enter = ["unshare", "--mount", "sh", "-c",
                 'mount -t proc proc "$0/proc" 2>/dev/null; exec "$@"', SYSTEM, *enter]
    clean = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return logged(enter, env={**clean, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                              "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"})


def copy_tree():
    """The tree's files as they are now, without what git ignores."""
    source = os.path.join(SYSTEM, "root/libcompute")
    os.makedirs(source)
    files = subprocess.run(["git", "-C", TREE, "-c", f"safe.directory={TREE}", "ls-files", "-z", "--cached", "--others",
                            "--exclude-standard"], capture_output=True, check=False)
    names = [name for name in files.stdout.split(b"\0") if name and os.path.exists(os.path.join(TREE.encode(), name))]
    chosen = ["--null", "--verbatim-files-from", "-T", "-"] if files.returncode == 0 else ["--exclude=./build*", "."]
    with subprocess.Popen(["tar", "-C", TREE, "-cf", "-", *chosen], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as pack:
        with subprocess.Popen(["tar", "-C", source, "-xf", "-"], stdin=pack.stdout) as unpack:
            pack.stdin.write(b"\0".join(names))
            pack.stdin.close()
            if unpack.wait():
                fail("copying the tree")


def blocks():
    """The README's first block of commands, and the block without a language after it."""
    with open(os.path.join(TREE, "README.md"), encoding="utf-8") as file:
        found = re.findall(r"^```(\w*)\n(.*?)^```$", file.read(), re.M | re.S)
    first = next(i for i, (language, _) in enumerate(found) if language == "sh")
    if found[first + 1][0] != "":
        sys.exit("FAILED: what the first block prints does not follow it in README.md")
    return found[first][1], found[first + 1][1]


def check(commands, expected):
    started = time.time()
    if inside(f"cd /root/libcompute\n{commands}"):
        fail("the README's first block")
    with open(LOG, encoding="utf-8", errors="replace") as file:
        last = "".join(file.readlines()[-expected.count("\n"):])
    pattern = "".join(".*".join(map(re.escape, line.split("…"))) + "\n" for line in expected.splitlines())
    if not re.fullmatch(pattern, last):
        fail(f"README.md says that this is printed:\n{expected}seen:\n{last}")
    print(f"the README's first block takes {time.time() - started:.0f} s here")


def main():
    commands, expected = blocks()
    if os.geteuid() != 0:
        skip("only root can make a Debian system")
    for tool in ("debootstrap", "chroot", "apt-get", "git"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            skip(f"no {tool} (Debian: {tool if tool != 'chroot' else 'coreutils'})")
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(SYSTEM)
    try:
        if not os.path.exists(BASE):
            make_base()
        elif logged(["tar", "-C", SYSTEM, "-xf", BASE]):
            os.remove(BASE)
            fail("unpacking " + BASE + ", which is removed")
        settings()
        if inside("apt-get update -o APT::Update::Error-Mode=any"):
            skip("the package mirror cannot be reached")
        copy_tree()
        check(commands, expected)
    finally:
        shutil.rmtree(SYSTEM, ignore_errors=True)


if __name__ == "__main__":
    main()
