"""What commands show of thirty jobs, of which three wait: on one screen, the worst first."""

import re
from dataclasses import replace

import msgspec
import pytest

from penstock.explanation import mesh
from penstock_cluster.cli.explain import explained_lines
from penstock_cluster.cli.job_rows import job_rows
from penstock_cluster.cli.look import Look, of_job
from penstock_cluster.cli.mesh_screen import mesh_screen
from penstock_cluster.cli.picture import picture
from penstock_cluster.cli.top import Order, Subject, moment_of_job, top
from penstock_dispatcher.page.job_view import Grade
from tests.cluster.cli.shown import shown
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked

WAITS = {4: 0.22, 11: 0.61, 19: 0.4}
"""The jobs that wait, and for how much of their time."""


def thirty(t=5.0, waits=WAITS, workers=12):
    passes = []
    for i in range(30):
        _, one = scenes.a_job(
            t, waits.get(i, 0.01), count=workers, per_worker=1, number=7000 + 100 * i,
            job=f"job-{i:02d}",
        )  # fmt: skip
        passes.append(one)
    addresses = [f"worker-{i}.local:7001" for i in range(workers)]
    tasks = {a: [x.task for it in passes for x in it.tasks if x.worker == a] for a in addresses}
    crowd = [scenes.worker(a, names, t, 44.0, slots=2) for a, names in tasks.items()]
    return scenes.mesh(crowd, passes)


def look(stats=None):
    stats = thirty() if stats is None else stats
    return Look("big:7000", 10.0, 1_800_000_000.0, stats, mesh.look(msgspec.json.encode(stats)))


@pytest.mark.quick(7)
@pytest.mark.parametrize("height", [24, 25, 40, 60])
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("waiting", [0, 3, 30])
def test_status_fits_a_screen(height, width, waiting):
    waits = dict.fromkeys(range(waiting), 0.5)

    text = shown(picture(look(thirty(waits=waits)), height), width)

    assert len(text.splitlines()) < height
    assert max(map(len, text.splitlines())) <= width


def test_jobs_that_wait_come_first_and_the_healthy_are_in_one_line():
    text = shown(picture(look(), 25), width=100)

    found = re.findall(r"^(job-\d\d) +(\d+) % +(.+?) {2,}([\d.,]+) +([\d.,]+)", text, re.MULTILINE)
    assert [row[0] for row in found] == ["job-11", "job-19", "job-04"]
    assert {row[2] for row in found} == {"map(decode) on workers"}
    assert [row[4] for row in found] == ["528", "528", "528"]  # 12 tasks, each 44 elements/s
    assert "27 jobs are healthy: job-00, job-01, job-02, job-03, job-05, job-06, …\n" in text


def test_all_shows_every_job_and_worker():
    text = shown(picture(look()), width=100)

    assert all(f"job-{i:02d} " in text for i in range(30))
    assert all(f"worker-{i}.local:7001 " in text for i in range(12))
    assert "27 jobs are healthy" not in text


def test_workers_that_do_not_answer_are_not_those_that_are_left_out():
    stats = thirty(workers=40)
    silent = replace(stats.workers[30], connected=False, silent=7.0)
    workers = (*stats.workers[:30], silent, *stats.workers[31:])

    text = shown(picture(look(replace(stats, workers=workers)), 25), 100)

    assert "worker-30.local:7001" in text
    assert re.search(r"^\d+ more workers: --all shows them$", text, re.MULTILINE)


def test_figures_from_before_all_workers_fell_silent_are_not_shown_as_those_of_now():
    stats = thirty()
    silent = tuple(replace(one, connected=False, silent=30.0) for one in stats.workers)
    now = look(replace(stats, workers=silent))

    rows = job_rows(now.stats, now.mesh)

    assert {row.grade for row in rows} == {Grade.STOPPED}
    assert {(row.wait, row.steps, row.elements) for row in rows} == {(None, None, None)}


def test_a_job_that_lost_readers_or_failed_is_not_healthy():
    stats = thirty(waits={})
    lost, failed, skips, *others = stats.iterations
    lost = replace(lost, readers_lost=3)
    one = replace(failed.tasks[0], failure="map(f) failed: ValueError: no\nTraceback ...")
    failed = replace(failed, tasks=(one, *failed.tasks[1:]))
    skips = replace(skips, account=replace(skips.account, errors=2))
    now = look(replace(stats, iterations=(lost, failed, skips, *others)))

    rows = job_rows(now.stats, now.mesh)

    assert [(row.name, row.grade, row.what) for row in rows[:3]] == [
        ("job-01", Grade.FAILED, "failed: map(f) failed: ValueError: no"),
        ("job-00", Grade.NOTED, "3 of 4 readers died"),
        ("job-02", Grade.NOTED, "left out 2 errors"),
    ]
    assert {row.grade for row in rows[3:]} == {Grade.HEALTHY}


def test_all_of_a_job_is_shown_when_it_is_named():
    text = shown(picture(of_job(look(), "job-19"), 40), 120)

    assert "job-19, repetition 1, dynamic: running" in text
    assert "map(decode) is the bottleneck" in text
    assert "produced" in text
    assert "job-11" not in text


def test_explain_has_the_worst_first_and_folds_the_healthy():
    lines = list(explained_lines(look(), everything=False))

    named = [line.partition(":")[0] for line in lines if line.startswith("job-")]
    assert named == ["job-11", "job-19", "job-04"]
    assert len(lines) <= 25
    assert "27 jobs are healthy: job-00, job-01, job-02, job-03, job-05, job-06, …" in lines
    assert sum(line.startswith("  task") for line in lines) > 0


def test_explain_has_all_figures_of_one_job_and_of_all_that_are_asked_for():
    one = "\n".join(explained_lines(of_job(look(), "job-19"), everything=False))
    all_of_them = "\n".join(explained_lines(look(), everything=True))

    assert one.count("map(decode) works") == 12
    assert all_of_them.count("map(decode) works") == 30 * 12


def test_the_full_screen_and_top_show_a_job_that_is_named():
    def scene(t):
        return thirty(t)

    history, moment = looked(scene, 3)

    screen = shown(mesh_screen(history, moment, 40, job="job-04"), width=120)
    listed = shown(
        top(moment_of_job(moment, "job-04"), [Subject.TASKS], Order.RATE, 100), width=120
    )

    assert "job-04  running" in screen
    assert "job-03  running" not in screen
    assert set(re.findall(r"job-\d\d", listed)) == {"job-04"}
