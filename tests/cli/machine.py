# SPDX-License-Identifier: MIT
"""Conditions that program tests need and that a machine may lack: a terminal, permissions that restrict root, and a
path that does not exist."""
import atexit
import ctypes
import os
import pty
import tempfile
import unittest


def open_terminal(test):
    """The two ends of a terminal. Skips the test if there are none, as in a bare chroot."""
    try:
        return pty.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"{test.id()}: no terminals here ({error})") from error


def may_lose_rights():
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            effective = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    except OSError:
        return False
    return bool(effective >> 8 & 1)  # CAP_SETPCAP


def permissions_hold():
    """For preexec_fn: permissions restrict root from now on. Another user could not reach a tree in root's
    home. Only if may_lose_rights()."""
    drop, dac_override = 24, 1
    if ctypes.CDLL(None, use_errno=True).prctl(drop, dac_override, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def nowhere(*below):
    """A path that does not exist, in a folder of this process. Any other path might exist on some
    machine."""
    if not nowhere.folder:
        nowhere.folder = tempfile.TemporaryDirectory()
        atexit.register(nowhere.folder.cleanup)
    return os.path.join(nowhere.folder.name, "nowhere", *below)


nowhere.folder = None
