"""The state of an iterator over a job: what it holds, what it refuses, how it goes on."""

import json

import pytest

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock.service import save_job

HERE = "127.0.0.1:5000"


def far(n=20, **kwargs):
    return Dataset.range(n).distribute("distributed_epoch", HERE, **kwargs)


def numbers(batches):
    return [int(x) for batch in batches for x in batch]


def text(state):
    return json.loads(json.dumps(state))


def test_a_state_behind_operators_leaves_out_what_the_loop_has_and_nothing_else(saving):
    build = lambda: far().shuffle(5).batch(3).prefetch(2)
    it = iter(build())
    seen = [*next(it), *next(it)]

    state = text(it.state())
    it.close()

    assert sorted([*map(int, seen), *numbers(build().iterator(state))]) == list(range(20))


def test_a_state_is_there_before_the_first_element_and_after_the_last(saving):
    it = iter(far().batch(3))
    before = text(it.state())
    numbers(it)
    after = text(it.state())

    assert numbers(far().batch(3).iterator(before)) == list(range(20))
    assert numbers(far().batch(3).iterator(after)) == []


def test_after_a_state_the_next_pass_is_the_next_repetition(saving):
    it = iter(far().batch(3).repeat(2))
    numbers(next(it) for _ in range(8))
    state = text(it.state())
    it.close()

    ds = far().batch(3).repeat(2)
    rest = numbers(ds.iterator(state))
    list(ds.take(1))

    assert state["passes"] == {"": 1}
    assert len(rest) == 40 - 7 * 3 - 2
    assert [session.repetition for session in saving] == [1, 2, 2, 3]


def test_two_passes_under_way_are_both_saved(saving):
    build = lambda: far().repeat(3).shuffle(30).batch(5)
    it = iter(build())
    seen = numbers(next(it) for _ in range(3))

    state = text(it.state())
    it.close()
    seen += numbers(build().iterator(state))

    assert sorted(seen) == sorted(list(range(20)) * 3)


def test_each_distribute_has_a_state_of_its_own(saving):
    build = lambda: Dataset.zip((far(), far().map(lambda x: x)))
    it = iter(build())
    seen = [next(it) for _ in range(4)]

    state = text(it.state())
    it.close()
    seen += list(build().iterator(state))

    assert [sorted(int(x) for x in side) for side in zip(*seen)] == [list(range(20))] * 2
    assert list(state["jobs"]) == [".0", ".1.0"]


def test_other_operators_may_follow_when_a_state_is_restored(saving):
    it = iter(far().batch(3))
    seen = numbers([next(it)])
    state = text(it.state())
    it.close()

    assert seen + numbers(far().batch(4).prefetch(2).iterator(state)) == list(range(20))


def test_restore_leaves_the_old_pass_when_the_new_one_is_open(saving):
    it = iter(far().batch(4))
    first = next(it).tolist()
    state = it.state()
    next(it)

    it.restore(state)

    assert [session.closed for session in saving] == [True, False]
    assert first + numbers(it) == list(range(20))


@pytest.mark.parametrize("behind", [lambda ds: ds.batch(4), lambda ds: ds.shuffle(3).batch(4)])
def test_a_state_that_cannot_be_opened_leaves_the_iterator_where_it_is(saving, behind):
    def refuse(repetition, restore):
        raise errors.StateError("this is nonsense")

    it = iter(behind(far()))
    first = next(it).tolist()
    state, saving.make = it.state(), refuse

    with pytest.raises(errors.StateError, match="nonsense"):
        it.restore(state)

    assert sorted(first + numbers(it)) == list(range(20))


def test_a_wrong_state_leaves_the_iterator_where_it_is(saving):
    it = iter(far().batch(4))
    next(it)

    with pytest.raises(errors.StateError):
        it.restore({"v": 1})

    assert next(it).tolist() == [4, 5, 6, 7]


def spoiled(state, **change):
    job = {**state["jobs"][".0"][0]["state"], **change}
    return {**state, "jobs": {".0": [{"passes": [], "state": job}]}}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: 5, "not a state of an iterator over a job: 5"),
        (lambda s: {}, "not a state"),
        (lambda s: {**s, "v": 1}, "version 1; this Penstock reads the versions 2 and 3"),
        (lambda s: {**s, "jobs": []}, "not a state"),
        (lambda s: {**s, "jobs": {}}, "behind 0 distribute.*, this dataset has 1"),
        (lambda s: {**s, "jobs": {".0": [5]}}, "not a state"),
        (lambda s: {**s, "jobs": {".0": [{}]}}, "not a state"),
        (lambda s: spoiled(s, kind="cat"), "not a state"),
        (lambda s: spoiled(s, mode="off"), "processing_mode 'parallel_epochs', this .*'distrib"),
        (lambda s: spoiled(s, fingerprint="abc"), r"fingerprint abc, this one.*this is 3\.\d+"),
        (lambda s: iter(Dataset.range(5)).state(), "of a dataset without distribute"),
    ],
)
def test_what_is_no_state_of_this_job_says_what_differs(saving, spoil, words):
    state = text(iter(far().batch(4)).state())

    with pytest.raises(errors.StateError, match=words):
        far().batch(4).iterator(spoil(state))


def test_the_state_of_a_job_does_not_fit_a_dataset_without_one(saving):
    state = text(iter(far().batch(4)).state())

    with pytest.raises(errors.StateError, match="state of a job.*this dataset has no distribute"):
        Dataset.range(20).batch(4).iterator(state)


def test_the_timeout_is_that_of_distribute_unless_another_is_given(saving):
    it = iter(far(timeout=7.0).batch(4))

    it.state()
    it.state(timeout=2)
    save_job(it, "step 4")
    save_job(it, "step 4", timeout=3)

    assert saving[0].saves == [("", 7.0), ("", 2), ("step 4", 7.0), ("step 4", 3)]


def test_without_distribute_the_timeout_is_of_no_importance():
    it = iter(Dataset.range(3))

    assert it.state(timeout=0.001) == it.state()


@pytest.mark.parametrize("given", [5, None, [1], "it"])
def test_save_job_takes_an_iterator_over_a_job(given):
    with pytest.raises(errors.DatasetError, match="save_job takes an iterator over a dataset with"):
        save_job(given, "step 1")
    with pytest.raises(errors.DatasetError, match="save_job takes an iterator over a dataset with"):
        save_job(iter(Dataset.range(3)), "step 1")


@pytest.mark.parametrize("label", ["", "  ", None, 5])
def test_save_job_wants_a_name(saving, label):
    with pytest.raises(errors.DatasetError, match="label must be a name"):
        save_job(iter(far().batch(2)), label)


def test_a_failed_save_leaves_the_iterator_as_it_is(saving):
    it = iter(far().batch(4))
    next(it)

    def fail(label, timeout=None, *, without_missing=False):
        raise errors.SaveFailed("reader 7 did not come to it")

    saving[0].save = fail

    with pytest.raises(errors.SaveFailed, match="reader 7"):
        it.state()
    assert next(it).tolist() == [4, 5, 6, 7]


def test_a_closed_iterator_has_no_state(saving):
    it = iter(far().batch(4))
    it.close()

    with pytest.raises(errors.Closed):
        it.state()
