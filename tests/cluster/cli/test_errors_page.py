"""`penstock errors`: each error is explained without a network, also by a wheel."""

import inspect
import tomllib
from pathlib import Path

import pytest

from penstock import errors
from penstock_cluster.cli import errors_page
from penstock_cluster.cli.client import screen
from penstock_cluster.cli.errors_page import page_text, sections, show_error


def printed(name):
    with screen.capture() as captured:
        show_error(name)
    return captured.get()


def test_the_address_of_each_error_is_a_command_that_explains_it():
    known = sections(page_text())
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.PenstockError):
            made = kind("map(f)", 3, "no") if kind is errors.TransformError else kind("no")
            program, command, name = made.address.strip("`").split()
            assert (program, command) == ("penstock", "errors")
            assert len(known[name.lower()].splitlines()) > 1


def test_a_section_is_printed_by_name_and_the_table_without_one():
    assert "A deadline passed" in printed("WaitedTooLong")
    assert "A deadline passed" in printed("penstock.errors.WaitedTooLong")
    assert "`WaitedTooLong`" in printed(None)


def test_an_unknown_error_is_refused_with_those_like_it():
    with pytest.raises(errors.DatasetError, match="did you mean WaitedTooLong"):
        show_error("WaitedToLong")


def test_a_wheel_has_the_page_where_the_command_looks():
    root = Path(__file__).parents[3]
    build = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]

    ((source, place),) = build["targets"]["wheel"]["force-include"].items()

    assert (root / source) == errors_page.IN_SOURCES
    assert place == f"penstock_cluster/{errors_page.IN_WHEEL.name}"
