"""`.ci/run` is over in time whatever takes long, and fails where something fails."""

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
    ".venv-frameworks/.ready",
    "test-frameworks",
    "test-page",
]

MAKE = """
echo "$1 $PYTEST_ADDOPTS" >>"$LOG"
case " $FAILS " in *" $1 "*) exit 2 ;; esac
case " $SLOW " in *" $1 "*) exec sleep 60 ;; esac
"""
"""Does what a test says: it fails, or does not end."""

TIMEOUT = """
signal=$1 kill=$2 most=$3
shift 3
echo "limit $most" >>"$LOG"
exec {real} $signal $kill $((most / 100)).$((most % 100 / 10)) "$@"
"""
"""A hundred times as fast as the real one."""


class Ran:
    def __init__(self, ended, log):
        self.code, self.said = ended.returncode, ended.stdout
        lines = [line.partition(" ") for line in log.splitlines()]
        self.limits = [int(rest) for word, _, rest in lines if word == "limit"]
        self.options = {word: rest for word, _, rest in lines if word != "limit"}
        self.made = list(self.options)

    @property
    def out_of_time(self):
        return [line for line in self.said.splitlines() if line.startswith("NO TIME")]


@pytest.fixture
def ci(tmp_path):
    """Runs it as after so many *seconds*, where there are make and a browser, and no root."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "sleep"):
        (tools / name).symlink_to(shutil.which(name))
    stubs = {"timeout": TIMEOUT.format(real=shutil.which("timeout")), "make": MAKE}
    for name, text in {**stubs, "chromium": "", "id": "echo 1000"}.items():
        (tools / name).write_text(f"#!{shutil.which('bash')}\n{text}")
        (tools / name).chmod(0o755)
    (tmp_path / "ci").mkdir()
    program = shutil.copy(RUN, tmp_path / "ci" / "run")
    log = tmp_path / "log.txt"

    def ci(seconds=0, fails="", slow=""):
        env = {"PATH": str(tools), "LOG": str(log), "SECONDS": str(seconds)}
        ended = subprocess.run(
            [tools / "bash", os.fspath(program)],
            env=env | {"FAILS": fails, "SLOW": slow},
            stdout=subprocess.PIPE,
            text=True,
            timeout=55,
        )
        return Ran(ended, log.read_text())

    return ci


def test_what_there_is_runs_in_order(ci):
    ran = ci()

    assert (ran.code, ran.made, ran.out_of_time) == (0, EVERYTHING, [])
    assert "no container engine here" in ran.said


@pytest.mark.parametrize("what", ["check", "test", "test-frameworks", "test-page"])
def test_what_fails_fails_the_run(ci, what):
    ran = ci(fails=what)

    assert (ran.code, ran.made) == (2, EVERYTHING[: EVERYTHING.index(what) + 1])


def test_what_cannot_be_installed_is_named_and_the_rest_runs(ci):
    ran = ci(fails=".venv-frameworks/.ready .kubectl/kubectl")

    assert (ran.code, ran.made) == (0, [each for each in EVERYTHING if each != "test-frameworks"])
    assert "the frameworks could not be installed here" in ran.said
    assert "no kubectl could be had here" in ran.said


@pytest.mark.parametrize(
    ("seconds", "made", "named"),
    [
        (600, EVERYTHING, []),
        (900, [*EVERYTHING[:3], "test-page"], ["frameworks", "3.14"]),
        (1000, [*EVERYTHING[:3], "test-page"], ["frameworks", "compose", "3.14"]),
        (1100, EVERYTHING[:3], ["frameworks", "browser", "compose", "3.14"]),
    ],
)
def test_what_no_time_is_left_for_is_left_out_and_named(ci, seconds, made, named):
    ran = ci(seconds)

    assert (ran.code, ran.made) == (0, made)
    assert len(ran.out_of_time) == len(named)
    assert all(word in line for word, line in zip(named, ran.out_of_time, strict=True))
    assert all(seconds + limit <= 1135 for limit in ran.limits)


@pytest.mark.parametrize("what", ["check", "test"])
def test_what_must_pass_and_does_not_end_fails_the_run(ci, what):
    ran = ci(1100, slow=what)

    assert (ran.code, ran.made[-1]) == (1, what)
    assert ran.out_of_time[0].endswith(f"this was ended, which must pass: make {what}")
    assert all(1100 + limit <= 1135 for limit in ran.limits)


@pytest.mark.parametrize(("what", "seconds"), [("test-frameworks", 850), ("test-page", 1050)])
def test_what_does_not_end_in_the_time_there_is_is_ended_and_named(ci, what, seconds):
    ran = ci(seconds, slow=what)

    assert (ran.code, what in ran.made) == (0, True)
    assert any(f"passed: make {what}" in line for line in ran.out_of_time)
    assert all(seconds + limit <= 1135 for limit in ran.limits)


def test_what_may_be_ended_by_the_time_stops_at_its_first_failure(ci):
    options = ci().options

    assert options["test"] == ""
    assert options["test-frameworks"].strip() == options["test-page"].strip() == "--exitfirst"
