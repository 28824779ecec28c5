"""What `penstock top` lists, and in which order."""

import subprocess
import sys

import pytest
from rich.console import Console

from penstock_cluster.cli.top import Order, Subject, top
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


def listed(subject, order, width=120, scene=scenes.healthy, lines=100):
    _, moment = looked(scene, 5)
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(top(moment, [subject], order, lines))
    rows = [line.split("│") for line in captured.get().splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row[1:-1]] for row in rows]


def test_operators_come_by_their_time():
    rows = listed(Subject.OPERATORS, Order.TIME)

    assert [row[0] for row in rows] == list(scenes.OPERATORS)
    assert [row[2] for row in rows] == ["71 %", "18 %", "4 %", "3 %"]


def test_tasks_come_by_their_rate_or_the_slowest_first():
    fast = [float(row[2]) for row in listed(Subject.TASKS, Order.RATE)]
    slow = [float(row[2]) for row in listed(Subject.TASKS, Order.SLOWEST)]

    assert len(fast) == 8
    assert fast == sorted(fast, reverse=True)
    assert slow == sorted(slow) != fast


def test_workers_come_by_their_names():
    rows = listed(Subject.WORKERS, Order.NAME)

    assert [row[0] for row in rows] == [f"worker-{i}.local:7001" for i in range(4)]
    assert (rows[0][3], *rows[0][5:7]) == ("1.8 of 4", "2", "2")


@pytest.mark.parametrize("subject", list(Subject))
@pytest.mark.parametrize("order", list(Order))
def test_every_list_has_every_order_and_fits_eighty_columns(subject, order):
    assert listed(subject, order, 80)


def test_no_more_is_listed_than_there_is_room_and_it_says_so():
    _, moment = looked(scenes.thousand, 2)
    console = Console(width=80, height=24, highlight=False)
    with console.capture() as captured:
        console.print(top(moment, [Subject.WORKERS], Order.RATE, 24))

    lines = captured.get().splitlines()
    assert len(lines) <= 24
    assert "more" in lines[-1]


@pytest.mark.slow
def test_the_command_prints_once(cluster):
    run = [sys.executable, "-m", "penstock_cluster.cli.app", "top", cluster.target]

    done = subprocess.run(
        [*run, "workers", "--once", "--sort", "name"], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert all(worker in done.stdout for worker in (one.address for one in cluster.workers))
    assert "operators" not in done.stdout
