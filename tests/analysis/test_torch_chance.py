"""The functions and methods of PyTorch that draw, by their names."""

import types

from penstock.analysis import torch_chance
from penstock.analysis.torch_chance import METHODS, NAMES, NotLoaded


def test_functions_are_known_by_their_full_names_where_torch_is_not_loaded():
    assert torch_chance.drawn_by(NotLoaded("torch.nn.functional.dropout")) == (
        "torch.nn.functional.dropout"
    )
    assert torch_chance.drawn_by(NotLoaded("torch.ones")) == ""
    assert torch_chance.drawn_by(print) == ""
    assert not torch_chance.is_generator(object())


def test_names_are_full_and_methods_change_their_tensor():
    assert all(name.startswith("torch.") for name in NAMES)
    assert all(name.endswith("_") for name in METHODS)


def test_functions_of_a_loaded_torch_are_known_by_what_they_are(monkeypatch):
    loaded = types.ModuleType("torch")
    loaded.rand = object()
    monkeypatch.setitem(torch_chance.sys.modules, "torch", loaded)

    assert torch_chance.drawn_by(loaded.rand) == "torch.rand"
    assert torch_chance.drawn_by(object()) == ""
