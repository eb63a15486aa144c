# SPDX-License-Identifier: MIT
"""A minimal Debian in a folder, for tests of the README's commands: debootstrap's packages, and the tree at
/root/libcompute.

It needs root, debootstrap and the package mirror of this machine's apt. If one is missing, the test ends with status
77 and the reason. BUILD/tests/debian-NUMBER.tar caches debootstrap's result. The settings of apt and the name server
are copied only into the system's folder, which is removed at the end."""
import os
import re
import shutil
import subprocess
import sys
import time

SUITES = {"12": "bookworm", "13": "trixie"}


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def mirror(suite):
    """Returns the address from which apt gets Debian's main packages here, preferably of the same release."""
    found = "http://deb.debian.org/debian"
    targets = output("apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(ORIGIN) $(LABEL) $(REPO_URI)")
    for line in targets.splitlines():
        release, *kind, address = line.split(" ")
        if kind == ["main", "Debian", "Debian"]:
            found = address
            if release == suite:
                break
    return found


class System:
    """Use it in a `with`: the folder is removed at the end. `kept` are folders of this machine that are mounted in the
    system, if the machine allows it, so that the next run of the test can reuse their files."""

    def __init__(self, release, tree, build, scratch, kept=()):
        self.release, self.tree, self.scratch, self.kept = release, tree, scratch, kept
        self.base = os.path.join(build, "tests", f"debian-{release}.tar")
        self.folder = os.path.join(scratch, "system")
        self.log = os.path.join(scratch, "log.txt")

    def __enter__(self):
        if os.geteuid() != 0:
            skip("only root can make a Debian system")
        for tool in ("debootstrap", "chroot", "apt-get"):
            if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
                skip(f"{tool} is missing")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        open(self.log, "wb").close()
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def fail(self, reason):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            print("".join(file.readlines()[-40:]))
        sys.exit(f"FAILED: Debian {self.release}: {reason}")

    def words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def logged(self, command, **more):
        with open(self.log, "ab") as file:
            return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False, **more).returncode

    def make(self):
        if not os.path.exists(self.base):
            self.make_base()
        elif self.logged(["tar", "-C", self.folder, "-xf", self.base]):
            os.remove(self.base)
            self.fail("unpacking " + self.base + ", which is removed")
        self.settings()
        if self.inside("apt-get update -o APT::Update::Error-Mode=any"):
            skip("the package mirror cannot be reached")
        self.copy_tree()

    def make_base(self):
        started = time.time()
        suite = SUITES[self.release]
        if self.logged(["debootstrap", "--variant=minbase", suite, self.folder, mirror(suite)]):
            if re.search("Failed getting release file|couldn't download|Couldn't download|Invalid Release|No such script",
                         self.words()):
                skip(f"debootstrap cannot get Debian {self.release} from the package mirror")
            if re.search("Operation not permitted|Cannot install into target|mknod", self.words()):
                skip("debootstrap may not make a system here")
            self.fail("debootstrap")
        if self.logged(["tar", "--one-file-system", "-C", self.folder, "-cf", self.base + ".new", "."]):
            self.fail("packing the system")
        os.rename(self.base + ".new", self.base)
        print(f"made a minimal Debian {self.release} in {time.time() - started:.0f} s")

    def settings(self):
        """Copies this machine's settings for reaching the mirror."""
        acquire = output("apt-config", "dump")
        with open(os.path.join(self.folder, "etc/apt/apt.conf.d/90machine"), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in acquire.splitlines() if line.startswith("Acquire::"))
        for path in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt", "etc/apt/auth.conf"):
            if os.path.exists("/" + path):
                os.makedirs(os.path.dirname(os.path.join(self.folder, path)), exist_ok=True)
                shutil.copyfile("/" + path, os.path.join(self.folder, path))

    def inside(self, script, **variables):
        """Runs lines of sh in the system, with /proc, /sys and the kept folders if this machine allows it. The mounts end
        with the process."""
        enter = ["chroot", self.folder, "/bin/sh", "-e", "-c", script]
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0:
            mounts = 'mount -t proc proc "$0/proc" 2>/dev/null; mount --rbind /sys "$0/sys" 2>/dev/null; '
            for here, there in self.kept:
                os.makedirs(here, exist_ok=True)
                os.makedirs(self.folder + there, exist_ok=True)
                mounts += f"mount --bind '{here}' '{self.folder}{there}'; "
            enter = ["unshare", "--mount", "sh", "-c", mounts + 'exec "$@"', self.folder, *enter]
        clean = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        return self.logged(enter, env={**clean, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                       "HOME": "/root",  # path: the system's own
                                       "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **variables})

    def copy_tree(self):
        """Copies the tree's current files, without those that git ignores."""
        source = os.path.join(self.folder, "root/libcompute")
        os.makedirs(source)
        files = subprocess.run(["git", "-C", self.tree, "-c", f"safe.directory={self.tree}", "ls-files", "-z", "--cached",
                                "--others", "--exclude-standard"], capture_output=True, check=False)
        names = [name for name in files.stdout.split(b"\0") if name and os.path.exists(os.path.join(self.tree.encode(), name))]
        chosen = ["--null", "--verbatim-files-from", "-T", "-"] if files.returncode == 0 else ["--exclude=./build*", "."]
        with subprocess.Popen(["tar", "-C", self.tree, "-cf", "-", *chosen], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as pack:
            with subprocess.Popen(["tar", "-C", source, "-xf", "-"], stdin=pack.stdout) as unpack:
                pack.stdin.write(b"\0".join(names))
                pack.stdin.close()
                if unpack.wait():
                    self.fail("copying the tree")
