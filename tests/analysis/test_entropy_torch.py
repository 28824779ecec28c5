"""The functions and methods of PyTorch that draw, by their names."""

import sys
import types

from penstock.analysis.entropy import (
    TORCH_METHODS,
    TORCH_NAMES,
    drawn_from_torch,
    is_torch_generator,
)
from penstock.analysis.name_resolution import NotLoaded


def test_functions_are_known_by_their_full_names_where_torch_is_not_loaded():
    assert drawn_from_torch(NotLoaded("torch.nn.functional.dropout")) == (
        "torch.nn.functional.dropout"
    )
    assert drawn_from_torch(NotLoaded("torch.ones")) == ""
    assert drawn_from_torch(print) == ""
    assert not is_torch_generator(object())


def test_names_are_full_and_methods_change_their_tensor():
    assert all(name.startswith("torch.") for name in TORCH_NAMES)
    assert all(name.endswith("_") for name in TORCH_METHODS)


def test_functions_of_a_loaded_torch_are_known_by_what_they_are(monkeypatch):
    loaded = types.ModuleType("torch")
    loaded.rand = object()
    monkeypatch.setitem(sys.modules, "torch", loaded)

    assert drawn_from_torch(loaded.rand) == "torch.rand"
    assert drawn_from_torch(object()) == ""
