"""What `penstock status --watch` shows, at 80 and 120 columns: as in the files of `screens`.

A change that is wanted is taken over with ``PENSTOCK_TEST_SCREENS=write`` in the environment, and
read in the diff.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.credentials.entrance import Security
from penstock_cluster.cli.grid import rate
from penstock_cluster.cli.mesh_screen import mesh_screen, spark
from penstock_dispatcher.page.history import History
from tests.cluster.cli.shown import shown
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked

SCREENS = Path(__file__).parent / "screens"


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.quick(1)
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "name", ["empty", "slow-map", "lost-and-drained", "unbalanced", "thousand"]
)
def test_a_screen_is_as_it_was_read_and_found_good(name, width):
    history = History(hears_facts=False)
    _, moment = looked(scenes.SCENES[name], 6 if name == "thousand" else 60, history)

    text = shown(mesh_screen(history, moment, 40), width=width, height=40)

    known = SCREENS / f"{name}-{width}.txt"
    if os.environ.get("PENSTOCK_TEST_SCREENS") == "write":
        known.write_text(text)
    assert text == known.read_text()
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("lines", [24, 40, 60])
def test_a_screen_is_about_as_high_as_there_is_room(lines):
    history, moment = looked(scenes.five_jobs, 5)

    text = shown(mesh_screen(history, moment, lines), width=120, height=lines)

    assert len(text.splitlines()) <= lines
    assert "speech-large waits" in text


@pytest.mark.parametrize("security", [*Security])
def test_a_dispatcher_that_lets_everybody_in_is_told_at_the_top(security):
    history, moment = looked(scenes.SCENES["empty"], 1)
    moment = replace(moment, stats=replace(moment.stats, security=security.value))
    first = shown(mesh_screen(history, moment, 40), width=80, height=40).splitlines()[0]

    assert ("  insecure" in first) == (security is Security.INSECURE)


def test_names_from_outside_are_no_markup():
    def scene(t):
        workers, one = scenes.a_job(t, 0.1, job="[red]j[/red]")
        return scenes.mesh(workers, [one])

    history, moment = looked(scene, 2)

    assert "[red]j[/red] waits" in shown(mesh_screen(history, moment, 40), width=120, height=40)


def test_bars_and_rates():
    assert spark([0.0, 0.49, 0.99, 1.0]) == "▁▄██"
    assert [rate(n) for n in (0.0, 0.25, 9.96, 12.5, 1234.0)] == ["0", "0.2", "10.0", "12", "1,234"]
