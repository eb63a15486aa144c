# SPDX-License-Identifier: MIT
"""Tests of the Python package. tests/python/package.sh starts them."""
import gc
import os

import numpy
import pytest

import libcompute


@pytest.fixture
def random():
    """Random numbers that differ each day, and are the same for the same seed."""
    return numpy.random.default_rng(int(os.environ.get("COMPUTE_TEST_SEED", "1")))


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves the default context usable."""
    yield
    gc.collect()
    assert libcompute.context().device is not None
