# SPDX-License-Identifier: MIT
"""Runs whole commands in a minimal Debian, as on a new machine: each one exits with 0, and the compiler does not
warn.

    check_debian.py TREE BUILD SCRATCH RELEASE COMMAND...

BUILD/tests/debian-RELEASE caches the files of compilers and apt-get."""
import os
import re
import sys
import time

TREE, BUILD, SCRATCH = map(os.path.abspath, sys.argv[1:4])
sys.dont_write_bytecode = True  # write no files beside the sources
sys.path.insert(0, os.path.join(TREE, "tests", "support", "harness"))
import debian_system  # noqa: E402 pylint: disable=wrong-import-position


def check(system, command):
    started = time.time()
    seed = os.environ.get("COMPUTE_TEST_SEED", "")
    before = len(system.words())
    if system.inside(f"cd /root/libcompute && {command}", CCACHE_DIR="/var/cache/ccache",
                     **({"COMPUTE_TEST_SEED": seed} if seed not in ("", "0") else {})):
        system.fail(command)
    words = system.words()[before:]
    warnings = re.findall(r"^.*(?:warning|Warning): .*$", words, re.M)
    if warnings:
        system.fail(f"{command} warns:\n" + "\n".join(warnings))
    if command.startswith("tests/"):
        print("\n".join(re.findall(r"^\d+% tests passed.*$|^.*\*\*\*Skipped.*$", words, re.M)))
    print(f"Debian {system.release}: {command} takes {time.time() - started:.0f} s here")


def main():
    release, *commands = sys.argv[4:]
    keep = os.path.join(BUILD, "tests", f"debian-{release}")
    kept = ((os.path.join(keep, "ccache"), "/var/cache/ccache"), (os.path.join(keep, "archives"), "/var/cache/apt/archives"))
    with debian_system.System(release, TREE, BUILD, SCRATCH, kept) as system:
        if system.inside("apt-get install -y -qq --no-install-recommends ccache git"):
            system.fail("installing ccache and git")
        for command in commands:
            check(system, command)


if __name__ == "__main__":
    main()
