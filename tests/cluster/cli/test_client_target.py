"""Where a command's dispatcher is."""

import pytest
import typer
from typer.testing import CliRunner

from penstock_cluster.cli.app import app
from penstock_cluster.cli.client import TARGET

NOBODY = "127.0.0.1:1"
COMMANDS = [
    ["status"],
    ["status", "--json"],
    ["explain"],
    ["jobs"],
    ["health"],
    ["top", "--once"],
    ["top", "tasks", "--once"],
    ["trace"],
    ["drain", "w:1"],
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Have `penstock trace` write its file where nobody minds."""
    monkeypatch.chdir(tmp_path)


def called(*args, **env):
    return CliRunner().invoke(app, args, env={TARGET: None, **env})


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_every_command_reads_the_variable(args):
    ran = called(*args, **{TARGET: NOBODY})

    assert ran.exit_code == (1 if args == ["health"] else 3)
    assert NOBODY in ran.output


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_without_a_target_a_command_was_called_wrongly(args):
    ran = called(*args)

    assert ran.exit_code == 2
    assert "target" in ran.output.lower() or "address" in ran.output


@pytest.mark.parametrize(
    "args", [["drain", "127.0.0.1:2", "w:1"], ["top", "127.0.0.1:2", "tasks", "--once"]]
)
def test_an_argument_goes_before_the_variable(args):
    assert "127.0.0.1:2" in called(*args, **{TARGET: NOBODY}).output


def test_a_word_that_is_no_subject_is_refused():
    ran = called("top", NOBODY, "nonsense", "--once")

    assert ran.exit_code == 2
    assert "nonsense" in ran.output


def test_a_misspelt_variable_is_warned_of_with_the_nearest_name():
    ran = called("errors", "Closed", PENSTOCK_TARGT=NOBODY)

    assert "did you mean PENSTOCK_TARGET?" in " ".join(ran.output.split())


def test_shells_complete_the_commands():
    names = [param.name for param in typer.main.get_command(app).params]

    assert "install_completion" in names
