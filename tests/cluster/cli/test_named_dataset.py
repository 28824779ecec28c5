import pytest

from penstock.errors import ConfigError
from penstock_cluster.cli.named_dataset import named_dataset


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module in the working directory."""
    (tmp_path / "of_the_test.py").write_text(
        "from penstock import Dataset\n"
        "numbers = Dataset.range(3)\n"
        "def made(): return Dataset.range(4)\n"
        "other = 5\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "of_the_test"


def test_a_dataset_is_named_by_its_module(module):
    assert list(named_dataset(f"{module}:numbers")) == [0, 1, 2]
    assert list(named_dataset(f"{module}:made")) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("of_the_test", "names no dataset: write MODULE:NAME"),
        (":numbers", "names no dataset"),
        ("of_the_test:nothing", "cannot be imported: module 'of_the_test' has no attribute"),
        ("nowhere.at_all:x", "cannot be imported: No module named 'nowhere'"),
        ("of_the_test:other", "is no Dataset, and no function that returns one: 5"),
    ],
)
def test_what_names_no_dataset_is_an_error(module, text, why):
    with pytest.raises(ConfigError, match=why):
        named_dataset(text)
