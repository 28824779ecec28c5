"""Weights of a mixture that change while a job reads it: what each turn takes is on record."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import StateError
from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.mixture import WeightStage, changed, decode
from penstock.protocol.turns import Turns
from penstock.protocol.types import Codec, Failure, Mode, SourceSlice
from penstock_dispatcher.core import job_state, mixtures
from penstock_dispatcher.core.events import OpenIteration
from penstock_dispatcher.core.fact_values import WeightChange
from penstock_dispatcher.core.state import DispatcherState
from tests.dispatcher.core.driver import VERSIONS, DrivenCore
from tests.dispatcher.core.mixed import Mixed, outline, source_of
from tests.dispatcher.core.one_order import World
from tests.dispatcher.core.replay import assert_replay_is_equal, written_and_read
from tests.openings import opening

WEB, CODE = 0, 1


def saved(job):
    """Return the state of the pass of *job*, as a save writes it."""
    state, iteration = job.core.state, job.iteration
    acked = {name: task.acked for name, task in iteration.tasks.items()}
    made = job_state.of(state.jobs["j"], iteration, acked, iteration.before)
    return job_state.encode(made)


def restored(job, state, workers=3):
    """Return a new dispatcher that restores *state*."""
    mesh = Mixed(job.mixture, workers, job="other")
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "j", 1, Codec.NONE, ordered=True, restore=state)
    answer = mesh.reply(OpenIteration(1, request, 9))
    if isinstance(answer, OpenIterationReply):
        mesh.answer = answer
        mesh.facts_before = len(mesh.granted)
        mesh.reads("again")
    return mesh, answer


def test_new_weights_hold_from_the_first_turn_that_no_task_has():
    job = Mixed()
    first = job.next_turn

    assert job.sets(web=1) == first
    job.finishes_first()

    assert job.sources[first:] == [WEB] * (job.next_turn - first)
    assert sorted(set(job.sources[:first])) == [WEB, CODE]


def test_a_split_from_before_the_change_has_no_stages_and_a_later_one_has_only_its_own():
    job = Mixed()
    before = job.granted
    at = job.sets(web=1, code=3)
    job.finishes_first()
    later = job.sets(web=3, code=1)
    job.finishes_first()

    second, third = job.granted[len(before) :]
    assert not any(split.names for split in before)
    assert [each.begin for each in decode(second.names[0])] == [at]
    assert [each.begin for each in decode(third.names[0])] == [later]


def test_a_turn_in_the_future_can_be_given():
    job = Mixed()

    assert job.sets(at=57, code=1) == 57
    for _ in range(8):
        job.finishes_first()

    assert set(job.sources[57:]) == {CODE}
    assert set(job.sources[40:57]) == {WEB, CODE}


def test_a_turn_that_a_task_has_is_refused_with_the_first_that_is_possible():
    job = Mixed()

    told = job.sets(at=3, code=1)

    assert f"tasks have the turns before {job.next_turn}" in told
    assert f"Give at={job.next_turn} or a later turn" in told
    assert not job.changes


def test_a_turn_after_the_last_one_is_refused():
    assert "turn 199 is the last" in Mixed().sets(at=200, code=1)


def test_a_change_replaces_all_that_was_planned_from_its_turn_on():
    job = Mixed()
    job.sets(at=150, code=1)
    job.sets(at=100, web=1)
    while job.tasks:
        job.finishes_first()

    assert set(job.sources[100:]) == {WEB}


def test_a_change_that_is_made_again_changes_nothing_and_is_answered_alike():
    job = Mixed()
    first = job.sets(web=3, code=1)
    job.finishes_first()

    assert job.sets(web=3, code=1) == first
    assert job.sets(web=6, code=2) == first
    assert job.sets(at=first + 5, web=3, code=1) == first
    assert len(job.changes) == 1


def test_a_dispatcher_that_was_killed_after_a_change_answers_the_second_try_alike():
    job = Mixed()
    first = job.sets(web=3, code=1)
    job.restart()

    assert job.sets(web=3, code=1) == first
    assert len(job.changes) == 1


def test_weights_that_hold_by_the_definition_need_no_change():
    job = Mixed()

    assert job.sets(web=0.5, code=0.5) == 0
    assert not job.changes


def test_the_next_pass_begins_with_the_newest_weights():
    job = Mixed(outline(length=40), passes=2)
    job.sets(code=1)
    while job.tasks:
        job.finishes_first()

    assert set(job.sources[40:]) == {CODE}
    assert len(job.sources) == 80


def test_the_next_repetition_of_a_job_begins_with_the_newest_weights():
    job = Mixed(outline(length=40))
    job.sets(code=1)
    job.answer = job.opens(repetition=2, ordered=True)
    already = len(job.sources)
    job.reads("again")

    assert set(job.sources[already:]) == {CODE}


def test_weights_that_are_set_when_all_turns_are_granted_are_those_of_the_next_repetition():
    job = Mixed(outline(length=40))
    while job.tasks:
        job.finishes_first()

    assert job.sets(code=1) == 0
    job.answer = job.opens(repetition=2, ordered=True)
    already = len(job.sources)
    job.reads("again")
    assert set(job.sources[already:]) == {CODE}
    assert job.sets(code=1) == 0


def test_a_schedule_goes_on_up_to_the_change():
    planned = (WeightStage(0, (1, 0)), WeightStage(50, (0, 1)), WeightStage(80, (1, 1)))
    job = Mixed(outline(stages=planned, length=200))
    job.sets(at=60, web=1)
    while job.tasks:
        job.finishes_first()

    assert set(job.sources[:50]) == {WEB}
    assert set(job.sources[50:60]) == {CODE}
    assert set(job.sources[60:]) == {WEB}


def test_a_pass_that_ends_with_a_source_ends_later_if_that_source_comes_less_often():
    job = Mixed(outline(sizes=(50, None), stop="first"))
    job.sets(at=40, web=1, code=3)
    while job.tasks:
        job.finishes_first()

    whole = changed(job.mixture.stages, WeightStage(40, (1, 3)))
    turns = Turns(whole, (50, None), "first")
    assert job.sources == list(turns.sources(0, 1000))
    assert job.sources.count(WEB) == 50
    assert len(job.sources) == turns.length


def test_weights_for_sources_that_have_no_more_elements_are_refused():
    job = Mixed(outline(sizes=(15, 200), stop="drop"))
    job.sets(web=1)  # the rest of it comes now
    job = Mixed(outline(sizes=(5, 200), stop="drop"))

    assert "no more elements" in job.sets(at=100, web=1)
    assert not job.changes


def test_turns_are_those_of_the_mixture_when_some_of_them_are_skipped():
    job = Mixed(outline(length=200, cuts=(SourceSlice(100),)))

    assert job.sets(code=1) == 100 + job.next_turn
    assert "turns before" in job.sets(at=50, web=1)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"wiki": 1}, "'wiki'"),
        ({"web": 0}, "positive"),
        ({"web": -1, "code": 1}, "at least 0"),
        ({}, "positive"),
    ],
)
def test_weights_that_make_no_mixture_are_refused(weights, said):
    assert said in Mixed().sets(**weights)


def test_a_job_that_is_not_there_is_refused_with_those_that_are():
    assert "there is no job 'k' at this dispatcher; it knows j" in Mixed().sets(job="k", web=1)


def test_a_job_without_a_mixture_is_refused():
    job = World(100)
    job.sets = Mixed.sets.__get__(job)

    assert "reads no mixture" in job.sets(web=1)


def test_a_job_that_reads_copies_of_a_mixture_is_refused():
    core = DrivenCore(source_of(outline(length=40)))
    core.opens(Mode.OFF)

    assert "ShardingPolicy.DYNAMIC" in Mixed.sets(core, web=1)


def test_two_mixtures_are_told_apart_by_the_names_of_their_sources():
    other = replace(source_of(outline(length=40, names=("de", "fr"))), sources=(".1",))
    core = DrivenCore(source_of(outline(length=40)), other)
    core.opens()

    assert Mixed.sets(core, fr=1) == 0
    assert Mixed.sets(core, web=1) == 0
    assert "2 mixtures" in Mixed.sets(core, fr=1, web=1)


def test_a_mixture_has_a_most_of_changes(monkeypatch):
    monkeypatch.setattr(mixtures, "MOST_CHANGES", 9)
    job = Mixed()
    answers = [job.sets(at=job.next_turn + n, web=1, code=2 + n % 2) for n in range(10)]

    assert isinstance(answers[-2], int)
    assert "9 times" in answers[-1]


# --- saved states ---


def test_a_restored_job_has_the_recorded_weights_whatever_number_of_workers_reads_it():
    job = Mixed(workers=1)
    job.finishes_first()
    job.sets(web=3, code=1)
    job.finishes_first()
    job.sets(at=90, code=1)
    state = saved(job)
    mesh, answer = restored(job, state)
    assert isinstance(answer, OpenIterationReply), answer.error()

    while job.tasks:
        job.finishes_first()
    while mesh.tasks:
        mesh.finishes_first()

    again = mesh.granted[mesh.facts_before :]
    later = [split for split in job.granted if split.start >= again[0].start]
    assert again == later
    assert mesh.iteration.finished


def test_open_tasks_of_a_restored_job_have_the_stages_that_they_had():
    job = Mixed()
    job.sets(web=3, code=1)
    job.finishes_first()
    mesh, _ = restored(job, saved(job))

    logs = [task.logs for task in job.tasks.values()]
    assert [task.logs for task in mesh.tasks.values()][: len(logs)] == logs


def test_a_pass_that_is_over_is_restored_with_the_weights_of_the_next_one():
    job = Mixed(outline(length=40))
    job.sets(code=1)
    while job.tasks:
        job.finishes_first()
    over = job_state.encode(job_state.over(job.core.state.jobs["j"], job.iteration))
    mesh, _ = restored(job, over)

    mesh.answer = mesh.opens(repetition=2, ordered=True)
    already = len(mesh.sources)
    mesh.reads("next")
    assert set(mesh.sources[already:]) == {CODE}


def test_a_state_without_changes_does_not_mention_them():
    state = json.loads(saved(Mixed()))

    assert "weights" not in state
    assert "changes" not in state["providers"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"begin": 0, "parts": [1]},
        {"begin": 5, "parts": [1, 1]},
        {"begin": 5, "parts": [0, 0], "before": [3, 2]},
        {"begin": 5, "parts": [1, 1 << 40], "before": [3, 2]},
        {"begin": 1 << 62, "parts": [1, 1], "before": [3, 2]},
    ],
)
def test_a_state_with_changes_of_another_mixture_is_refused(change):
    job = Mixed()
    state = json.loads(saved(job))
    for place in ("providers", "weights"):
        wrong = json.loads(json.dumps(state))
        if place == "weights":
            wrong["weights"] = [{"provider": 0, "changes": [change]}]
        else:
            wrong["providers"][0]["changes"] = [change]
        _, answer = restored(job, json.dumps(wrong).encode())
        assert isinstance(answer, Failure)
        assert isinstance(answer.error(), StateError)
        assert f"$.{place}[0]" in str(answer.error())


# --- laws ---

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 5), st.integers(0, 40)),
        st.just(("task",)),
        st.just(("restart",)),
        st.just(("twice",)),
    ),
    max_size=25,
)


@given(STEPS, st.sampled_from(["repeat", "first", "all", "drop"]), st.integers(1, 3))
def test_what_tasks_are_granted_is_what_the_recorded_stages_say(steps, stop, workers):
    job = Mixed(outline(sizes=(40, 60), stop=stop, length=150), workers)
    asked = None
    for kind, *given_ in steps:
        if kind == "set":
            web, code, further = given_
            at = job.next_turn + further if further else None
            asked = {"at": at, "web": web, "code": code}
            job.sets(**asked)
        elif kind == "twice" and asked is not None:
            before = len(job.changes)
            first = job.sets(**asked)
            made = len(job.changes)
            assert job.sets(**asked) == first or made == before
            assert len(job.changes) == made
        elif kind == "restart":
            job.restart()
            job.reads()
        elif job.tasks:
            job.finishes_first()
    while job.tasks:
        job.finishes_first()

    stages = job.mixture.stages
    for change in job.changes_of_the_pass:
        stages = changed(stages, change.stage)
    plain = tuple(replace(each, before=()) for each in stages)
    turns = Turns(plain, job.mixture.sizes, stop)
    if stop != "all":
        assert turns.length is None or min(turns.length, 150) == len(job.sources)
    assert job.sources == list(turns.sources(0, len(job.sources)))
    assert [split.start for split in job.granted] == [0, *(s.stop for s in job.granted[:-1])]


def test_facts_of_weights_are_plain_values_and_replay_gives_the_state():
    job = Mixed(passes=2)
    job.sets(code=1)
    job.finishes_first()
    job.sets(at=170, web=1)
    job.opens(repetition=2, ordered=True)

    assert "WeightsChanged" in written_and_read([job])
    assert_replay_is_equal(job)
    again = DispatcherState()
    for fact in job.facts:
        again.apply(fact)
    assert again == job.core.state


def test_a_change_says_how_many_elements_of_each_source_come_before():
    job = Mixed()
    job.sets(at=30, code=1)

    assert job.changes == [WeightChange(0, WeightStage(30, (0, 1), (15, 15)))]
