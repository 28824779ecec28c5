"""The page of limits says what the code does: each name, default, unit and error, and no other."""

import dataclasses
import re

import pytest

from penstock import element, errors
from penstock.credentials import secret_file, token
from penstock.credentials.limits import LIMITS, parsed
from penstock.errors import ConfigError
from penstock.frames import compression, frame
from penstock.graph import traversal
from penstock.ops import tfrecords
from penstock.ops.internal import csv_columns
from penstock.protocol import names, nearness
from penstock.web import door, server
from penstock.wire import connection
from penstock_dispatcher import request_checks
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.page import feed
from penstock_worker import linked_reader
from penstock_worker.config import WorkerConfig
from tests.docs.pages import DOCS

CONFIGS = {"dispatcher": DispatcherConfig, "worker": WorkerConfig}
SUMS = {
    "buffer_bytes",
    "total_buffer_bytes",
    "file_cache_bytes",
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
    "seconds for a reader on the host to say who it is": linked_reader.GREET_WITHIN,
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


def defaults(role):
    """Return the default of each limit of a service."""
    sums = {f.name: f.default for f in dataclasses.fields(CONFIGS[role]) if f.name in SUMS}
    return {**sums, **CONFIGS[role]().limits}


def given(role, name, value):
    return CONFIGS[role](**({"limits": {name: value}} if name in LIMITS else {name: value}))


def variables(name, value):
    if name in LIMITS:
        return {"PENSTOCK_LIMITS": f"{name}={value}"}
    return {f"PENSTOCK_{name.upper()}": str(value)}


def shown(default):
    return "None" if default is None else f"{default:,}"


def roles(of):
    return [of] if of in CONFIGS else list(CONFIGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_each_row_has_the_default_and_the_unit_of_a_setting_of_those_services(name):
    of, default, unit, _, error = SETTINGS[name]

    assert of == "both" or of in CONFIGS
    assert {role for role in CONFIGS if name in defaults(role)} == set(roles(of))
    assert {shown(defaults(role)[name]) for role in roles(of)} == {default}
    assert name.endswith("_bytes") or "_bytes_" in name or unit != "bytes"
    assert error == "no error" or issubclass(
        getattr(errors, error.strip("`")), errors.PenstockError
    )


def test_each_limit_of_a_service_has_a_row():
    assert SETTINGS.keys() == LIMITS.keys() | SUMS


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"])
def test_a_limit_of_0_or_of_no_number_is_refused_by_its_name(name, value):
    for role in roles(SETTINGS[name][0]):
        with pytest.raises(ConfigError, match=f"{name} must be .*not {value!r}"):
            given(role, name, value)
        with pytest.raises(ConfigError, match=f"{name}|{name.upper()}"):
            CONFIGS[role].from_env(variables(name, value))


@pytest.mark.parametrize("name", LIMITS)
def test_each_is_an_option_and_a_variable_too(name):
    for role in LIMITS[name].roles:
        config = CONFIGS[role]
        assert config.from_env(variables(name, 7)) == given(role, name, 7)
        assert config.from_env(variables(name, 5), limits=[f"{name}=7"]) == given(role, name, 7)


def test_options_add_to_the_limits_in_the_variable():
    env = {"PENSTOCK_LIMITS": "max_calls=5, max_connections=6"}

    config = DispatcherConfig.from_env(env, limits=["max_calls=7"])

    assert (config.limits["max_calls"], config.limits["max_connections"]) == (7, 6)


def test_in_variables_that_services_share_each_service_reads_its_own_limits():
    env = {"PENSTOCK_LIMITS": "max_jobs=5,max_element_bytes=6"}

    assert DispatcherConfig.from_env(env).limits["max_jobs"] == 5
    assert WorkerConfig.from_env(env).limits["max_element_bytes"] == 6
    with pytest.raises(ConfigError, match="'max_jobs'; the limits of a worker are max_conn"):
        WorkerConfig.from_env({}, limits=["max_jobs=5"])


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_no_setting_of_its_own_and_the_error_says_how_to_set_it(name):
    for config in CONFIGS.values():
        with pytest.raises(ConfigError, match=rf"set limits=\{{'{name}': 7\}}"):
            config(**{name: 7})
        with pytest.raises(ConfigError, match=f"set PENSTOCK_LIMITS={name}=7"):
            config.from_env({f"PENSTOCK_{name.upper()}": "7"})


@pytest.mark.parametrize(
    "text", ["max_jobs", "max_jobs=", "max_jobs=many", "port=7", "=", "x" * 999]
)
def test_an_option_that_names_no_limit_is_refused_with_those_there_are(text):
    with pytest.raises(ConfigError, match="must be NAME=NUMBER.*max_calls, "):
        parsed([text])


def test_what_no_setting_changes_has_its_value():
    told = {name: value for name, value, _ in rows("What no setting changes")}

    assert told == {name: f"{value:,.0f}" for name, value in FIXED.items()}
