"""Fixtures of tests of the command."""

import pytest

from penstock_cluster.cli.app import main


@pytest.fixture
def called(monkeypatch, capsys):
    """Runs ``penstock`` in this process; returns its exit status, and what it printed."""

    def run(*args):
        monkeypatch.setattr("sys.argv", ["penstock", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run
