"""The options of a command are the fields of a dataclass."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import pytest
import typer
from typer.testing import CliRunner

from penstock.runtime.service_command import field_docstrings, options_of
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig


@dataclass
class Settings:
    """Settings of something."""

    port: int = 7
    """The port to listen on. 0 takes any free port. What follows would make the help longer
    than anybody reads, and so it is left out of the help of this option."""

    seconds: float | None = None
    """How long."""

    strict: bool = False
    """Refuse what is odd."""

    addresses: tuple[str, ...] | None = None
    """Where ``they`` are."""

    tags: tuple[str, ...] = ()
    """What they are called."""

    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits by name."""


@pytest.fixture
def command():
    app, calls = typer.Typer(rich_markup_mode=None), []

    @app.command()
    @options_of(Settings)
    def run(**given):
        calls.append({name: value for name, value in given.items() if value is not None})

    def called(*words):
        calls.clear()
        answer = CliRunner().invoke(app, words)
        return answer, calls

    return called


def test_each_field_is_an_option_and_a_field_of_several_values_is_one_in_the_singular(command):
    _, (given,) = command("--port", "1", "--seconds", "2.5", "--strict", "--address", "a",
                          "--address", "b", "--tag", "x")  # fmt: skip

    assert given == {
        "port": 1,
        "seconds": 2.5,
        "strict": True,
        "addresses": ["a", "b"],
        "tags": ["x"],
    }


def test_what_is_not_given_is_left_to_variables_and_defaults(command):
    _, (given,) = command()

    assert given == {}


def test_limits_are_given_by_one_option(command):
    _, (given,) = command("--limit", "max_calls=2", "--limit", "max_calls=1")

    assert given == {"limits": ["max_calls=2", "max_calls=1"]}
    assert command("--max-calls", "1")[0].exit_code == 2


def test_the_help_is_how_the_docstring_begins_and_the_default(command):
    help_text = " ".join(command("--help")[0].output.split())

    assert "The port to listen on. 0 takes any free port. By default 7." in help_text
    assert "Where they are. Repeatable." in help_text
    assert "What follows" not in help_text


def test_without_the_source_there_are_options_without_texts(monkeypatch):
    def unknown(module):
        raise OSError("source code not available")

    monkeypatch.setattr(inspect, "getsource", unknown)

    assert field_docstrings(Settings) == {}
    assert "seconds" in inspect.signature(options_of(Settings)(lambda **given: None)).parameters


def test_each_field_of_the_services_has_a_docstring():
    for kind in (DispatcherConfig, WorkerConfig):
        assert set(field_docstrings(kind)) == {one.name for one in fields(kind)} | {
            "role",
            "checks",
        }
