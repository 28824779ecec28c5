"""The first line: is my training waiting, and for what?"""

from dataclasses import replace

import pytest

from penstock.protocol.loop_time import LoopTime
from penstock_dispatcher.page.headline import headline
from penstock_dispatcher.page.job_view import job_view
from tests.dispatcher.page import scenes, troubled_scenes
from tests.dispatcher.page.looking import looked

NONE = "None of 2 jobs is waiting for data:"


def said(scene, seconds=6, **change):
    _, moment = looked(scene, seconds)
    jobs = [job_view(replace(it, **change), moment) for it in moment.stats.iterations]
    found = headline(jobs, len(moment.stats.workers), moment.trouble)
    words = f"{found.before} {found.number} {found.after}".replace(" ,", ",").strip()
    return found.tone, " ".join(words.split())


@pytest.mark.parametrize(
    ("scene", "tone", "words"),
    [
        (scenes.empty, "idle", "No job runs; 0 workers ready"),
        (scenes.healthy, "good", "imagenet is not waiting for data: it waits 1 % of its time"),
        (scenes.slow_map, "waits", "imagenet waits 66 % of its time, for map(decode) on workers"),
        (scenes.unbalanced, "bad", "The account of nightly eval does not balance, in 1 place"),
        (
            scenes.five_jobs,
            "waits",
            "speech-large waits 47 % of its time, for map(decode) on workers",
        ),
    ],
)
def test_it_says_what_there_is_to_know(scene, tone, words):
    assert said(scene) == (tone, words)


def test_of_several_jobs_that_go_on_it_names_the_longest_wait():
    def scene(t):
        (_, one), (workers, other) = scenes.a_job(t, 0.01), scenes.a_job(t, 0.03, number=8100)
        return scenes.mesh(workers, [one, other])

    assert said(scene) == ("good", f"{NONE} none waits more than 3 % of its time")


def test_what_is_not_there_is_named():
    tone, words = said(scenes.healthy, tasks=(), waiting_for="a worker with a free slot")

    assert (tone, words) == ("waits", "imagenet waits for a worker with a free slot")


def test_a_job_that_nobody_reads_is_no_training_that_waits():
    tone, words = said(scenes.healthy, unread=12.0)

    assert (tone, words) == ("idle", "1 job without a reader; 4 workers ready")


def test_what_failed_comes_before_what_waits():
    _, moment = looked(scenes.slow_map, 3)
    (it,) = moment.stats.iterations
    tasks = (replace(it.tasks[0], failure="map(f) failed at element 3: no\n\nTrace"), *it.tasks[1:])

    found = headline([job_view(replace(it, tasks=tasks), moment)], 4, None)

    assert (found.tone, found.number, found.after) == ("bad", "1 task", "of imagenet failed")
    assert found.detail == "map(f) failed at element 3: no"


def test_what_stops_everything_comes_before_all_that_is_wrong_with_a_job():
    def scene(t):
        return replace(scenes.unbalanced(t), halted="no room to write /work/journal.db")

    assert said(scene) == (
        "bad",
        "The dispatcher decides nothing: no room to write /work/journal.db",
    )
    assert said(lambda t: replace(scenes.empty(t), halted="no room"))[0] == "bad"


def test_a_job_whose_workers_are_all_gone_is_not_green():
    def scene(t):
        return replace(scenes.healthy(t), workers=(), worker_lost=8.0, up=100.0)

    assert said(scene) == (
        "bad",
        "No worker is registered at dispatcher.local:5050: the last was heard 8.0 s ago",
    )


def test_thirty_one_of_thirty_two_trainers_killed_is_not_green():
    def scene(t):
        seen = scenes.healthy(t)
        (it,) = seen.iterations
        gone = replace(it, readers=(), unread=40.0, readers_lost=1)
        return replace(seen, iterations=(it, *(replace(gone, iteration=n) for n in range(31))))

    assert said(scene) == ("bad", "31 of 33 readers died; nobody reads 31 of 32 jobs")


def test_readers_that_are_silent_are_not_green_and_have_no_old_figure():
    def scene(t):
        seen = scenes.healthy(t)
        (it,) = seen.iterations
        silent = tuple(replace(r, silent=5.0, loop=None, links=()) for r in it.readers)
        return replace(seen, iterations=(replace(it, readers=silent),))

    _, moment = looked(scene, 6)
    (sample,) = moment.samples.values()
    assert said(scene) == ("bad", "2 of 2 readers are silent")
    assert (sample.steps, sample.nbytes, sample.held) == (0.0, 0.0, 0.0)


def test_a_loop_that_is_blocked_is_not_green():
    def scene(t):
        seen = scenes.healthy(t)
        (it,) = seen.iterations
        loop = LoopTime(0, 10.0, 10.0, waiting=150.0, total=12_250, waits_for="elements of task 1")
        readers = tuple(replace(reader, loop=loop) for reader in it.readers)
        return replace(seen, iterations=(replace(it, readers=readers),))

    assert said(scene) == ("waits", "imagenet waits 100 % of its time")
    _, moment = looked(scene, 6)
    view = job_view(moment.stats.iterations[0], moment)
    assert view.sentence.startswith("the trainer has waited for its next element for 2.5 min")
    assert moment.samples[view.iteration].steps == 0.0


def test_of_a_long_sentence_on_what_is_wrong_the_first_clause_is_the_first_line():
    _, moment = looked(troubled_scenes.disk_full, 100)
    found = headline([job_view(moment.stats.iterations[0], moment)], 4, moment.trouble)

    assert found.before == (
        "The dispatcher decides nothing: it has no room to write /data/penstock/journal.db"
    )
    assert found.detail.startswith(found.before)
    assert "free space there, or raise the quota or limit" in found.detail
