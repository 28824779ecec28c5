"""The first line: is my training waiting, and for what?"""

from dataclasses import replace

import pytest

from penstock_dispatcher.page.headline import counted, headline
from penstock_dispatcher.page.job_view import job_view
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


def said(scene, seconds=6, **change):
    _, moment = looked(scene, seconds)
    jobs = [job_view(replace(it, **change), moment) for it in moment.stats.iterations]
    found = headline(jobs, len(moment.stats.workers))
    words = f"{found.before} {found.number} {found.after}".replace(" ,", ",").strip()
    return found.tone, " ".join(words.split())


@pytest.mark.parametrize(
    ("scene", "tone", "words"),
    [
        (scenes.empty, "idle", "No job runs; 0 workers ready"),
        (scenes.healthy, "good", "imagenet waits 1 % of its time: it is itself the limit"),
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

    assert said(scene) == ("good", "Of 2 jobs none waits more than 3 % of its time")


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

    found = headline([job_view(replace(it, tasks=tasks), moment)], 4)

    assert (found.tone, found.number, found.after) == ("bad", "1 task", "of imagenet failed")
    assert found.detail == "map(f) failed at element 3: no"


def test_numbers_have_their_nouns():
    assert [counted(n, "task") for n in (0, 1, 1200)] == ["0 tasks", "1 task", "1,200 tasks"]
