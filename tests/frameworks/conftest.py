"""Tests with the real frameworks, in the venv of `make test-frameworks`."""

import os

import pytest

# One small machine runs several processes of each framework at a time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Let frameworks warn of each other: what they say of themselves is no fault of ours."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))
