"""The page of limits says what the code does: each name, default, unit and error, and no other."""

import dataclasses
import re

import pytest

from penstock import element, errors
from penstock.credentials import secret_file, token
from penstock.errors import ConfigError
from penstock.frames import compression, frame
from penstock.graph import traversal
from penstock.ops import tfrecords
from penstock.ops.internal import csv_columns
from penstock.protocol import names, nearness
from penstock.runtime.settings import limits
from penstock.web import door, server
from penstock.wire import connection
from penstock_dispatcher import request_checks
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.page import feed
from penstock_worker import shm_reader
from penstock_worker.config import WorkerConfig
from tests.docs.pages import DOCS

CONFIGS = {"dispatcher": DispatcherConfig, "worker": WorkerConfig}
SUMS = {
    "buffer_bytes",
    "total_buffer_bytes",
    "cross_trainer_cache_size_bytes",
    "runner_memory_bytes",
}
"""Limits that are not called so."""

FIXED = {
    "bytes of a name": names.LONGEST_NAME,
    "bytes of a dataset's id": names.LONGEST_ID,
    "tags and transports of a worker": nearness.MOST_WORDS,
    "bytes of an element spec": request_checks.MOST_SPEC,
    "bytes of a worker's statistics": request_checks.MOST_STATS,
    "tasks in a consumer's report": request_checks.MOST_HELD,
    "bytes of a call's headers": connection.HEADERS,
    "characters of a token": token.LONGEST,
    "bytes of a file with a secret": secret_file.LARGEST,
    "bytes of an HTTP request behind its headers": server.MOST_BODY,
    "those who look at the page at once": feed.LISTENERS,
    "elements nested in each other": element.DEEPEST,
    "operators behind each other": traversal.DEEPEST,
    "bytes of a frame's layout": frame.MOST_LAYOUT,
    "elements of a frame": frame.MOST_COUNT,
    "bytes that one of LZ4 stands for": compression._LZ4_EXPANSION,
    "bytes that one of ZSTD stands for": compression._ZSTD_EXPANSION,
    "bytes of a record of a TFRecord file": tfrecords.LONGEST,
    "bytes of a row of a CSV file": csv_columns.LONGEST_ROW,
    "seconds for TLS and HTTP/2's greeting": connection.GREET_WITHIN,
    "seconds for a reader on the host to say who it is": shm_reader.GREET_WITHIN,
    "seconds for the first request by HTTP": door.FIRST_WITHIN,
    "seconds that an answer by HTTP may take to be taken": door.TAKEN_WITHIN,
    "seconds that a connection without a call is kept": connection.IDLE_FOR,
}


def rows(title):
    """Return the rows of the table under the heading *title*, cell by cell."""
    text = (DOCS / "reference" / "limits.md").read_text().partition(f"## {title}")[2]
    table = text.partition("\n## ")[0]
    lines = re.findall(r"^\| (.*) \|$", table, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines[2:]]


SETTINGS = {row[0].strip("`"): row[1:] for row in rows("What a setting changes")}


def fields(config):
    return {f.name: f.default for f in dataclasses.fields(config)}


def shown(default):
    return "None" if default is None else f"{default:,}"


def configs(of):
    return [CONFIGS[of]] if of in CONFIGS else list(CONFIGS.values())


@pytest.mark.parametrize("name", SETTINGS)
def test_each_row_has_the_default_and_the_unit_of_a_setting_of_those_services(name):
    of, default, unit, _, error = SETTINGS[name]

    assert of == "both" or of in CONFIGS
    assert {k for k, config in CONFIGS.items() if name in fields(config)} == {
        k for k, config in CONFIGS.items() if config in configs(of)
    }
    for config in configs(of):
        assert default == shown(fields(config)[name])
    assert name.endswith("_bytes") or "_bytes_" in name or unit != "bytes"
    assert error == "no error" or issubclass(
        getattr(errors, error.strip("`")), errors.PenstockError
    )


def test_each_limit_of_a_service_has_a_row():
    wanted = {
        name
        for config in CONFIGS.values()
        for name in fields(config)
        if name.startswith("max_") or name in SUMS
    }

    assert SETTINGS.keys() == wanted


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"])
def test_a_limit_of_0_or_of_no_number_is_refused_by_its_name(name, value):
    for config in configs(SETTINGS[name][0]):
        with pytest.raises(ConfigError, match=f"{name} must be .*not {value!r}"):
            config(**{name: value})
        with pytest.raises(ConfigError, match=f"{name}|{name.upper()}"):
            config.from_env({f"PENSTOCK_{name.upper()}": str(value) if value != 1 else "True"})


@pytest.mark.parametrize("name", [name for name in SETTINGS if name.startswith("max_")])
def test_each_is_an_option_and_a_variable_too(name):
    for config in configs(SETTINGS[name][0]):
        given = config.from_env({}, **limits(config, [f"{name}=7"]))
        assert getattr(given, name) == 7
        assert config.from_env({f"PENSTOCK_{name.upper()}": "7"}) == given


@pytest.mark.parametrize(
    "text", ["max_jobs", "max_jobs=", "max_jobs=many", "port=7", "=", "x" * 999]
)
def test_an_option_that_names_no_limit_is_refused_with_those_there_are(text):
    with pytest.raises(ConfigError, match="must be NAME=NUMBER.*max_calls, "):
        limits(DispatcherConfig, [text])


def test_what_no_setting_changes_has_its_value():
    told = {name: value for name, value, _ in rows("What no setting changes")}

    assert told == {name: f"{value:,.0f}" for name, value in FIXED.items()}
