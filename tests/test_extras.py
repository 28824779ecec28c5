"""What is not installed is named by its extra."""

import sys
import tomllib
from pathlib import Path

import pytest

from penstock.errors import MissingExtra
from penstock.extras import EXTRAS, needed

ROOT = Path(__file__).parents[1]


def test_what_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(EXTRAS, "a_framework", "torch")

    with pytest.raises(
        MissingExtra, match=r'us needs a_framework, .*pip install "penstock\[torch\]"'
    ):
        needed("a_framework", "us")


@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_to_import_a_package_of_ours_without_its_framework_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    for loaded in [each for each in sys.modules if each.startswith(f"penstock.{name}")]:
        monkeypatch.delitem(sys.modules, loaded)

    with pytest.raises(ImportError, match=rf'pip install "penstock\[{name}\]"'):
        __import__(f"penstock.{name}")


def test_a_package_that_is_there_and_lacks_something_says_what_it_lacks(monkeypatch, tmp_path):
    (tmp_path / "half_a_framework.py").write_text("import the_other_half")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXTRAS, "half_a_framework", "torch")

    with pytest.raises(ModuleNotFoundError, match="the_other_half"):
        needed("half_a_framework", "us")


def test_each_extra_that_is_named_is_one_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    assert set(EXTRAS.values()) <= extras.keys()
    for package, extra in EXTRAS.items():
        distribution = {"PIL": "pillow", "lance": "pylance"}.get(package, package)
        assert any(line.startswith(distribution) for line in extras[extra]), package
