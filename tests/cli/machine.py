# SPDX-License-Identifier: MIT
"""What tests of programs need of the machine around them, and cannot take for granted: a terminal, permissions that
hold for root, too, and a path where nothing is."""
import atexit
import ctypes
import os
import pty
import tempfile
import unittest


def open_terminal(test):
    """The two ends of a terminal. The test is skipped where there are none, as in a bare chroot."""
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
    """For preexec_fn: root no longer writes where permissions forbid it. Another user could not reach a tree in
    root's home. Only where may_lose_rights()."""
    drop, dac_override = 24, 1
    if ctypes.CDLL(None, use_errno=True).prctl(drop, dac_override, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def nowhere(*below):
    """A path where nothing is, in a folder of this process: any other might be there on some machine."""
    if not nowhere.folder:
        nowhere.folder = tempfile.TemporaryDirectory()
        atexit.register(nowhere.folder.cleanup)
    return os.path.join(nowhere.folder.name, "nowhere", *below)


nowhere.folder = None
