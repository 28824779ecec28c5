"""What each dataset of a mixture gives in a span of steps: as if one had read and counted it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from tests.analysis.test_registered import read

NAMES = ("web", "code", "books")
SERVICE = "grpc://127.0.0.1:1"


def mixture(weights, sizes=(1000, 20, 50), **more):
    """A mixture whose elements say of which dataset, and which of its elements, they are."""
    datasets = {
        name: Dataset.range(size).map(lambda i, name=name: (name, int(i)))
        for name, size in zip(NAMES, sizes, strict=True)
    }
    return Dataset.mixture(datasets, weights, **more)


def shares(dataset, *steps):
    (found,) = dataset.visitation(steps=steps).mixtures
    return found


WEIGHTS = st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)


@settings(max_examples=40, deadline=None)
@given(weights=WEIGHTS, begin=st.integers(0, 150), span=st.integers(1, 100), stop=st.booleans())
def test_each_dataset_gives_as_many_elements_as_the_steps_have(weights, begin, span, stop):
    mixed = mixture(dict(zip(NAMES, weights, strict=True)), stop="drop" if stop else "repeat")
    names = [str(name) for name, _ in mixed.take(begin + span)][begin:]
    if not names:
        with pytest.raises(DatasetError, match="it ends before step"):
            shares(mixed, begin, begin + span)
        return

    found = shares(mixed, begin, begin + span)

    assert (found.begin, found.end) == (begin, begin + len(names))
    assert [one.elements for one in found.sources] == [names.count(name) for name in NAMES]
    assert [one.real for one in found.sources] == [names.count(n) / len(names) for n in NAMES]


def test_passes_and_the_next_repeat_are_those_of_a_run():
    mixed = mixture({"web": 0.5, "code": 0.5})
    seen = [(str(name), int(i)) for name, i in mixed.take(200)]

    _, code, _ = shares(mixed, 0, 100).sources

    assert code.passes == [each for each in seen[:100] if each[0] == "code"].count(("code", 19))
    assert code.repeats_at == next(s for s in range(100, 200) if seen[s] == ("code", 0))


def test_a_dataset_that_never_begins_again_says_so():
    web, code, books = shares(mixture({"web": 1, "code": 1}, stop="drop"), 0, 30).sources

    assert (web.repeats_at, code.repeats_at, books.repeats_at) == (None, None, None)
    assert (books.wanted, books.elements) == (0.0, 0)


def test_real_shares_differ_from_wanted_ones_once_a_dataset_has_ended():
    web, code, _ = shares(mixture({"web": 0.5, "code": 0.5}, stop="drop"), 100, 200).sources

    assert (web.wanted, code.wanted) == (0.5, 0.5)
    assert (web.real, code.real, code.passes) == (1.0, 0.0, 1)


def test_wanted_shares_of_a_plan_are_those_of_the_span():
    mixed = mixture([(0, {"web": 1}), (100, {"code": 1})])

    assert [one.wanted for one in shares(mixed, 100, 150).sources] == [0.0, 1.0, 0.0]
    first, last = shares(mixed, 0, 50).sources[0], shares(mixed, 50, 100).sources[0]
    assert first.wanted == pytest.approx(0.75, abs=0.02)
    assert last.wanted == pytest.approx(0.25, abs=0.02)
    assert first.real == pytest.approx(first.wanted, abs=0.03)


def test_a_step_of_batches_and_of_consumers_takes_many_turns():
    mixed = mixture({"web": 0.5, "code": 0.5})
    batches = mixed.map(lambda x: x).batch(4).prefetch(2)
    ranks = batches.distribute(
        "distributed_epoch",
        SERVICE,
        job_name="j",
        ordered=True,
        num_consumers=2,
        consumer_index=0,
    )

    wanted = shares(mixed, 80, 160)
    assert shares(batches, 20, 40).sources[0].elements == wanted.sources[0].elements == 40
    assert shares(ranks, 10, 20).sources[1].elements == wanted.sources[1].elements
    assert shares(ranks, 10, 20).sources[1].passes == wanted.sources[1].passes == 4
    assert shares(ranks, 10, 20).sources[1].repeats_at == wanted.sources[1].repeats_at // 8


def test_two_mixtures_are_both_told():
    both = Dataset.zip((mixture({"web": 1}), mixture({"code": 1})))

    assert len(both.visitation(steps=(0, 5)).mixtures) == 2


def test_a_span_is_a_line_of_its_own():
    text = str(mixture({"web": 0.75, "code": 0.25}).visitation(steps=(0, 100)))

    assert text.splitlines() == [
        "Each element exactly once, whatever dies.",
        (
            "Steps 0 to 100: web 75.0 % (wanted 75.0 %), again at step 1,334; "
            "code 25.0 % (wanted 25.0 %), 1 pass over, again at step 161; "
            "books 0.0 % (wanted 0.0 %)."
        ),
    ]


@pytest.mark.parametrize("steps", [5, (5,), (5, 5), (-1, 3), (1, "x"), [1, 2]])
def test_what_is_no_span_is_refused(steps):
    with pytest.raises(DatasetError, match="steps"):
        mixture({"web": 1}).visitation(steps=steps)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (Dataset.range(5), "the pipeline has none"),
        (mixture({"web": 1}).filter(lambda *_: True), "filter.* takes a number of turns"),
        (mixture({"web": 1}).shuffle(3), "shuffle takes a number of turns"),
        (
            Dataset.mixture({"a": Dataset.range(5).shuffle(2)}, {"a": 1}),
            "depends on the task, because shuffle of 'a' has no index",
        ),
        (read(Dataset.range(5)).batch(2), "'corpus' is not here: ask for steps where"),
        (mixture({"web": 1}, stop="drop"), "it ends before step 1,000"),
    ],
)
def test_steps_of_which_nothing_is_known_are_refused(dataset, words):
    with pytest.raises(DatasetError, match=words):
        dataset.visitation(steps=(2000, 2001))
