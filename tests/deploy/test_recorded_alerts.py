"""The alert rules, on scrapes of real meshes in which something went wrong: `record_scrapes`."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from tests.deploy.record_scrapes import RECORDINGS, SCRAPES, in_short
from tests.deploy.test_prometheus import RULES

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool: Debian's package prometheus has it"
)

LATER = 20 * 60
"""Seconds for which the last scrape repeats itself: what a mesh is in stays as it is."""

AFTER_FAULT = {
    "all_is_well": (set(), set()),
    "worker_killed": ({"PenstockWorkerGone"}, {"PenstockWorkerGone"}),
    "worker_stopped": ({"PenstockWorkerGone"}, {"PenstockWorkerGone"}),
    "workers_die_again": (
        {"PenstockWorkerGone", "PenstockWorkersDie", "PenstockTasksMove"},
        {"PenstockWorkerGone", "PenstockWorkersDie", "PenstockTasksMove"},
    ),
    # Readers give up after a minute.
    "all_workers_killed": (
        {"PenstockWorkerGone"},
        {"PenstockWorkerGone", "PenstockTasksWait", "PenstockNobodyReads"},
    ),
    "readers_killed": (
        {"PenstockReadersLost", "PenstockReadersExpire"},
        {"PenstockReadersLost", "PenstockReadersExpire"},
    ),
    "reader_stopped": ({"PenstockReadersLost"}, {"PenstockReadersLost"}),
    "all_readers_killed": ({"PenstockReadersLost"}, {"PenstockReadersLost", "PenstockNobodyReads"}),
    "disk_full": ({"PenstockJournalBlocked"}, {"PenstockJournalBlocked"}),
    "map_blocked": ({"PenstockLoopBlocked"}, {"PenstockLoopBlocked", "PenstockTrainingWaits"}),
}
"""The alerts at the end of each recording, and a quarter of an hour later if nothing is done."""


def recorded(name):
    return json.loads((SCRAPES / f"{name}.json").read_text())


def at(seconds, alerts):
    firing = [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in sorted(alerts)]
    return {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{seconds:.0f}s",
        "exp_samples": firing,
    }


def run(tmp_path, name, *expected):
    scrapes = recorded(name)
    every, more = scrapes["every"], int(LATER / scrapes["every"])
    series = [
        {"series": series, "values": values + went_on(values, more)}
        for series, values in scrapes["series"].items()
    ]
    told = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{every:.0f}s",
        "tests": [
            {
                "name": scrapes["what"],
                "interval": f"{every:.0f}s",
                "input_series": series,
                "promql_expr_test": list(expected),
            }
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(told, width=10**6))
    ran = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def went_on(values, more):
    """Return the last of *values* so many times again."""
    last = re.fullmatch(r"(.*?)(?:x\d+)?", values.rsplit(" ", 1)[-1])[1]
    return f" {'_' if last == 'stale' else last}x{more}"


@needs_promtool
@pytest.mark.quick(3)
@pytest.mark.parametrize("name", RECORDINGS)
def test_alerts_say_what_went_wrong_and_nothing_else(tmp_path, name):
    scrapes = recorded(name)
    well, every = scrapes["well"], scrapes["every"]
    soon, later = AFTER_FAULT[name]
    end = (length(scrapes) - 1) * every
    run(
        tmp_path,
        name,
        at((well - 1) * every, set()),
        at(end, soon),
        at(end + 15 * 60 - 5 * every, later),
    )


@needs_promtool
def test_a_silent_reader_is_told_before_it_expires(tmp_path):
    well, every = recorded("reader_stopped")["well"], recorded("reader_stopped")["every"]
    run(tmp_path, "reader_stopped", at((well + 4) * every, {"PenstockReadersSilent"}))


def length(scrapes):
    """Return how many scrapes there are."""
    values = next(values for values in scrapes["series"].values() if "_" not in values)
    runs = re.findall(r"(?:^| )[^ x]+(?:x(\d+))?", values)
    return sum(1 + int(more or 0) for more in runs)


def test_each_recording_is_there_and_has_the_metrics_that_rules_ask_for():
    assert {path.stem for path in SCRAPES.glob("*.json")} == set(RECORDINGS)
    for name in RECORDINGS:
        assert recorded(name)["what"] == RECORDINGS[name].what


def test_values_are_written_as_promtool_reads_them():
    assert in_short([1.0, 1.0, 2.5, None, None, 3.0]) == "1x1 2.5 stale _ 3"
    assert in_short([None, None, 7.0]) == "_x2 7"
