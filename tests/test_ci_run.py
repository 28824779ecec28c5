"""`.ci/run` runs every check in turn, fails with the first that fails, and names what it skips."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
EVERYTHING = [
    "check",
    ".kubectl/kubectl",
    "test",
    "test-all",
    ".venv-frameworks/.ready",
    "test-frameworks",
    "test-page",
]
"""All that runs where a browser is, and no root, container engine or second Python."""

MAKE = """
echo "$1" >>"$LOG"
case " $FAILS " in *" $1 "*) exit 2 ;; esac
"""


@pytest.fixture
def ci(tmp_path):
    """Runs it with a `make` that fails for *fails*; gives its code, its targets and its output."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname"):
        (tools / name).symlink_to(shutil.which(name))
    for name, text in {"make": MAKE, "chromium": "", "promtool": "", "id": "echo 1000"}.items():
        (tools / name).write_text(f"#!{shutil.which('bash')}\n{text}")
        (tools / name).chmod(0o755)
    (tmp_path / "ci").mkdir()
    program = shutil.copy(RUN, tmp_path / "ci" / "run")
    log = tmp_path / "log.txt"

    def ci(fails=""):
        ended = subprocess.run(
            [tools / "bash", os.fspath(program)],
            env={"PATH": str(tools), "LOG": str(log), "FAILS": fails},
            stdout=subprocess.PIPE,
            text=True,
            timeout=55,
        )
        return ended.returncode, log.read_text().split(), ended.stdout

    return ci


def test_all_targets_run_in_order_and_a_missing_engine_is_named(ci):
    code, made, said = ci()

    assert (code, made) == (0, EVERYTHING)
    assert "SKIPPED: no container engine here, so this did not run: make test-compose" in said


@pytest.mark.parametrize("what", ["check", "test", "test-all", "test-frameworks", "test-page"])
def test_a_target_that_fails_ends_the_run_with_its_code(ci, what):
    code, made, _ = ci(fails=what)

    assert (code, made) == (2, EVERYTHING[: EVERYTHING.index(what) + 1])


def test_what_cannot_be_installed_is_named_and_the_rest_runs(ci):
    code, made, said = ci(fails=".venv-frameworks/.ready .kubectl/kubectl")

    assert (code, made) == (0, [each for each in EVERYTHING if each != "test-frameworks"])
    assert "the frameworks cannot be installed here" in said
    assert "no kubectl here" in said
