"""Errors: what they tell, and how they are made again elsewhere."""

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from penstock import errors
from penstock.errors import PenstockError, TransformError, by_name


def kinds(kind=PenstockError):
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in kinds(child))]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_is_made_again_from_its_name_and_fields(kind):
    error = kind("map(f)", 3, "no") if kind is TransformError else kind("no")

    again = by_name(kind.__name__, error.fields())

    assert type(again) is kind
    assert str(again) == str(error)


def test_every_error_is_in_the_tree_that_the_docstring_draws():
    for kind in kinds():
        assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize("name, fields", [("Unheard", ("a", 1)), ("TransformError", ("too few",))])
def test_an_error_of_another_version_keeps_its_words(name, fields):
    again = by_name(name, fields)

    assert type(again) is PenstockError
    assert name in str(again)
    assert str(fields[0]) in str(again)


def test_an_error_of_user_code_with_another_worker_keeps_its_cause_and_the_rest():
    first = TransformError("map(f)", 3, "no", None, "Traceback", "7")
    first.__cause__ = ValueError("no")

    other = first.but(worker="w:1")

    assert other.fields() == ("map(f)", 3, "no", "w:1", "Traceback", "7")
    assert other.__cause__ is first.__cause__
    assert str(other).startswith(
        "map(f) failed at element 3 in a task on worker w:1: no (its input was 7)\n\nTraceback"
    )


def made(kind):
    return kind("map(f)", 3, "no") if kind is TransformError else kind("no")


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_ends_with_its_address_once_also_after_it_crossed_the_wire(kind):
    page = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"
    first = made(kind)
    again = by_name(kind.__name__, first.fields())
    nested = kind("map(f)", 3, f"{again}") if kind is TransformError else kind(f"{again}")
    for error in (first, again, nested, pickle.loads(pickle.dumps(first)), copy.copy(first)):
        text = "".join(traceback.format_exception(error)).rstrip()
        last = text.splitlines()[-1]
        assert last == f"see `penstock errors {kind.__name__}`"
        assert text.count("penstock errors") == 1
        assert errors.explained_at(error).count("penstock errors") == 1
    assert f"\n### {kind.__name__}\n" in page.read_text()


def test_where_the_docs_are_published_can_be_set(monkeypatch):
    monkeypatch.setenv("PENSTOCK_DOCS", "https://docs.example/")

    assert errors.Closed("no").address == "https://docs.example/reference/errors/#closed"

    monkeypatch.setenv("PENSTOCK_DOCS", "")
    assert errors.Closed("no").__notes__ == []
    assert errors.explained_at(errors.Closed("no")) == "no"


def test_what_is_added_stands_before_the_address():
    error = errors.Closed("no")
    error.add_note("first")
    error.add_note("second")

    assert error.__notes__[:2] == ["first", "second"]
    assert error.__notes__[2:] == [f"see {error.address}"]
    with pytest.raises(TypeError, match="note must be a str"):
        error.add_note(3)


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def test_an_error_of_a_user_is_described_whether_or_not_it_works():
    assert errors.describe(ValueError("no")) == "ValueError: no"
    assert errors.describe(Mute()) == "Mute: (its text cannot be had: RuntimeError)"
