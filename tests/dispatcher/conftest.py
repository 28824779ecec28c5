"""What tests of the dispatcher share."""

import importlib.util
import sys
from pathlib import Path

import pytest


def _load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"dispatcher_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def play():
    """Runs a scenario; see `scenario.py`."""
    return _load("scenario").play
