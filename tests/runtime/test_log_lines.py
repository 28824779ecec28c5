"""Log lines as JSON: one object a line, with what it is about, where nobody else set up logging."""

import json
import logging
import os
import subprocess
import sys
from datetime import datetime

import pytest

from penstock.errors import ConfigError
from penstock.runtime import log_lines
from penstock.runtime.log_lines import JsonLines, about


@pytest.fixture(autouse=True)
def nobody_in_particular(monkeypatch):
    monkeypatch.setattr(log_lines, "_process", {})


def line(message="no", *args, exc_info=None, **fields):
    record = logging.LogRecord("penstock.x", logging.WARNING, "f.py", 1, message, args, exc_info)
    record.__dict__.update(about(**fields))
    text = JsonLines().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_line_has_time_level_logger_message_and_what_it_is_about():
    seen = line("task %d\nis gone", 3, task=3, attempt=2, worker="w:1", job=None)

    moment = datetime.fromisoformat(seen.pop("time"))
    assert moment.utcoffset().total_seconds() == 0
    assert seen == {
        "level": "WARNING",
        "logger": "penstock.x",
        "message": "task 3\nis gone",
        "task": 3,
        "attempt": 2,
        "worker": "w:1",
    }


def test_what_a_process_is_stands_in_each_line_unless_the_line_says_otherwise():
    log_lines.identify(worker="w:1", task=5)

    assert (line()["worker"], line()["task"]) == ("w:1", 5)
    assert line(task=6)["task"] == 6

    log_lines.identify(task=None)
    assert "task" not in line()
    assert log_lines.identity("worker") == "w:1"


def test_a_traceback_is_a_field():
    try:
        raise ValueError("odd")
    except ValueError:
        seen = line(exc_info=sys.exc_info())

    assert seen["exception"].endswith("ValueError: odd")


def test_a_name_that_is_no_valid_text_does_not_cost_the_line():
    assert line("file %s", "a\udcff")["message"] == "file a\\udcff"


def test_text_is_the_default_and_another_format_an_error():
    assert not isinstance(log_lines.formatter({}), JsonLines)
    assert not isinstance(log_lines.formatter({"PENSTOCK_LOG_FORMAT": "text"}), JsonLines)
    assert isinstance(log_lines.formatter({"PENSTOCK_LOG_FORMAT": "json"}), JsonLines)
    with pytest.raises(ConfigError, match=r"PENSTOCK_LOG_FORMAT must be 'text' or 'json', not 'x'"):
        log_lines.formatter({"PENSTOCK_LOG_FORMAT": "x"})
    with pytest.raises(ConfigError, match=r"PENSTOCK_LOG must be a level, as INFO is, not 'loud'"):
        log_lines.configure({"PENSTOCK_LOG": "loud"})


PROGRAM = """
import logging, sys
from penstock.runtime import log_lines
{before}
log_lines.configure_within()
log_lines.configure_within()
{after}
logging.getLogger("penstock.reader").warning("here")
"""


def said(before="", after=""):
    env = {**os.environ, "PENSTOCK_LOG_FORMAT": "json"}
    code = PROGRAM.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()


def test_a_program_without_logging_of_its_own_gets_json_of_us_once():
    (text,) = said()

    assert json.loads(text)["message"] == "here"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_program_that_sets_up_logging_keeps_its_own(when):
    mine = "logging.basicConfig(format='mine: %(message)s')"

    assert said(**{when: mine}) == ["mine: here"]
