import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, ElementError, StateError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.graph.run import open_root
from penstock.reference import Reference
from tests.ops.packs import MODELS, document, made

METHODS = sorted(MODELS)
LENGTHS = [5, 3, 9, 2, 2, 7, 1, 0, 6, 4, 25, 8, 3, 3, 1, 10, 2, 5, 20, 6]


def documents(lengths):
    return Dataset.from_sequence(list(enumerate(lengths))).map(document)


def plain_lists(packs):
    return [{name: part.tolist() for name, part in pack.items()} for pack in packs]


@pytest.mark.quick(2)
@pytest.mark.parametrize("buffer", [1, 4, 100])
@pytest.mark.parametrize("method", METHODS)
def test_packs_are_those_of_a_slow_model_from_every_state(check_states, method, buffer):
    check_states(
        lambda: documents(LENGTHS).pack(10, method=method, buffer=buffer),
        [made(held) for held in MODELS[method](LENGTHS, 10, buffer)],
    )


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    lengths=st.lists(st.integers(0, 40), max_size=40),
    capacity=st.integers(1, 20),
    buffer=st.integers(1, 12),
    method=st.sampled_from(METHODS),
)
def test_any_documents_keep_each_token_once_and_no_pack_is_too_large(
    lengths, capacity, buffer, method
):
    packs = list(documents(lengths).pack(capacity, method=method, buffer=buffer))

    tokens = [token for pack in packs for token in pack["tokens"].tolist()]
    assert sorted(tokens) == sorted(
        token for i, n in enumerate(lengths) for token in document(i, n)["tokens"].tolist()
    )
    assert all(0 < len(pack["tokens"]) <= capacity for pack in packs)
    assert plain_lists(packs) == plain_lists(
        made(held) for held in MODELS[method](lengths, capacity, buffer)
    )


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    lengths=st.lists(st.integers(0, 25), max_size=25),
    capacity=st.integers(1, 12),
    buffer=st.integers(1, 6),
    method=st.sampled_from(METHODS),
    long=st.sampled_from(["cut", "error", "drop"]),
)
def test_any_documents_continue_from_every_state(
    check_states, lengths, capacity, buffer, method, long
):
    if method == "concat":
        long = "cut"
    check_states(
        lambda: documents(lengths).pack(capacity, method=method, buffer=buffer, split_long=long),
        max_state=2000,
    )


@pytest.mark.slow
def test_two_hundred_resume_points_give_the_same_tail():
    rng = np.random.default_rng(3)
    lengths = np.minimum(rng.lognormal(4, 1, 2000).astype(int), 700).tolist()
    dataset = documents(lengths).pack(256, buffer=64)
    whole = plain_lists(dataset)
    step = len(whole) // 200
    assert step

    it = dataset.iterator()
    for stop in range(0, 200 * step, step):
        restored = dataset.iterator(json.loads(json.dumps(it.state())))
        assert plain_lists(next(restored) for _ in range(3)) == whole[stop : stop + 3]
        restored.close()
        for _ in range(step):
            next(it)
    assert plain_lists(it) == whole[200 * step :]


def test_a_document_that_is_cut_fills_packs_and_its_rest_shares_one():
    packs = plain_lists(documents([3, 22]).pack(10))

    assert [pack["cu_seqlens"] for pack in packs] == [[0, 10], [0, 10], [0, 3, 5]]
    assert packs[2]["positions"] == [0, 1, 2, 0, 1]
    assert packs[2]["tokens"] == [0, 1, 2, 1020, 1021]


def test_packs_with_padding_have_one_shape_and_can_be_batched():
    packs = list(documents([4, 5, 3]).pack(8, pad=-1))
    batch = next(iter(documents([4, 5, 3]).pack(8, pad=-1).batch(2)))

    assert plain_lists(packs) == [
        {
            "tokens": [1000, 1001, 1002, 1003, 1004, 2000, 2001, 2002],
            "segment_ids": [1, 1, 1, 1, 1, 2, 2, 2],
            "positions": [0, 1, 2, 3, 4, 0, 1, 2],
            "cu_seqlens": [0, 5, 8, 8, 8, 8, 8, 8, 8],
        },
        {
            "tokens": [0, 1, 2, 3, -1, -1, -1, -1],
            "segment_ids": [1, 1, 1, 1, 0, 0, 0, 0],
            "positions": [0, 1, 2, 3, 0, 0, 0, 0],
            "cu_seqlens": [0, 4, 4, 4, 4, 4, 4, 4, 4],
        },
    ]
    assert batch["tokens"].shape == (2, 8)
    assert batch["cu_seqlens"].shape == (2, 9)


def test_dtypes_are_those_of_the_documents_and_int32():
    (pack,) = Dataset.from_sequence([np.zeros(3, np.uint16)]).pack(5, field=None, pad=7)

    assert {name: part.dtype.name for name, part in pack.items()} == {
        "tokens": "uint16",
        "segment_ids": "int32",
        "positions": "int32",
        "cu_seqlens": "int32",
    }


def test_another_field_is_packed_like_the_tokens():
    def answer(n):
        return {"ids": np.arange(n), "mask": np.arange(n) > 1, "row": np.ones((n, 2), np.float32)}

    packs = list(Dataset.from_sequence([3, 14, 2]).map(answer).pack(5, "ids", pad=0))

    assert [pack["ids"].tolist() for pack in packs[2:]] == [[0, 1, 2, 0, 1], [10, 11, 12, 13, 0]]
    assert [pack["mask"].tolist() for pack in packs[2:]] == [
        [False, False, True, False, False],
        [True, True, True, True, False],
    ]
    assert all(pack["row"].shape == (5, 2) for pack in packs)


def test_long_documents_are_dropped_and_counted(check_states):
    def make():
        return documents([3, 30, 4]).pack(10, split_long="drop")

    check_states(make)
    context = Context.local(7)
    run = open_root(make().node, context)

    assert [pack["cu_seqlens"].tolist() for pack in run.block(5)] == [[0, 3, 7]]
    assert context.tallies.skipped == 1


@pytest.mark.parametrize("method", ["best_fit", "first_fit_decreasing"])
def test_a_long_document_is_an_error_in_its_place(check_states, method):
    check_states(
        lambda: documents([3, 11, 9, 12, 1]).pack(10, method=method, buffer=2, split_long="error")
    )
    it = iter(documents([3, 11]).pack(10, method=method, split_long="error"))

    with pytest.raises(ElementError, match="pack: element 1 has 11 tokens, more than the 10 that"):
        next(it)
    assert [pack["cu_seqlens"].tolist() for pack in it] == [[0, 3]]


@pytest.mark.parametrize("method", METHODS)
def test_errors_of_the_input_come_once_and_the_rest_is_packed(check_states, method):
    def fussy(number, length):
        if number % 4 == 2:
            raise ValueError("bad")
        return document(number, length)

    check_states(
        lambda: (
            Dataset.from_sequence(list(enumerate(LENGTHS)))
            .map(fussy)
            .pack(10, method=method, buffer=3)
        ),
        max_state=1500,
    )


def test_documents_of_different_dtypes_are_an_error_of_their_pack(check_states):
    def make():
        rows = [np.zeros(3, np.int32), np.zeros(3, np.int64), np.zeros(8, np.int8)]
        return Dataset.from_sequence(rows).pack(8, field=None)

    check_states(make)
    it = iter(make())
    assert next(it)["tokens"].dtype == np.int8
    with pytest.raises(ElementError, match="must have the same fields and dtypes"):
        next(it)
    assert list(it) == []


def with_name(n):
    return {"tokens": np.full(n, n), "id": n, "name": f"no. {n}", "image": Reference("f", n, 9)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pad", [None, 0])
def test_what_belongs_to_a_document_comes_once_for_each_piece_of_it(check_states, method, pad):
    def make():
        return (
            Dataset.from_sequence([3, 1, 2, 7, 2]).map(with_name).pack(5, "tokens", method, pad=pad)
        )

    check_states(make, max_state=1500)
    for pack in make():
        lengths = np.diff(pack["cu_seqlens"])
        begins = pack["cu_seqlens"][:-1][lengths > 0]
        ids = pack["tokens"][begins].tolist()
        assert pack["id"].tolist() == ids
        assert pack["name"].tolist() == [f"no. {n}" for n in ids]
        assert pack["image"].url.tolist() == ["f"] * len(ids)
        assert pack["image"].offset.tolist() == ids
        assert isinstance(pack["image"], Reference)


def test_the_spec_of_packs_says_that_packs_differ_in_their_number_of_documents():
    spec = Dataset.range(1, 9).map(with_name).pack(16, pad=0).element_spec

    assert spec["tokens"].shape == (16,)
    assert spec["id"].shape == spec["image"].offset.shape == (None,)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("element", "field", "match"),
    [
        (np.zeros((2, 2)), None, "must be an array of numbers with one axis, but it is"),
        (np.array(["a", "b"]), None, "must be an array of numbers with one axis"),
        (np.int64(3), None, "must be an array of numbers with one axis"),
        (np.zeros(3), "tokens", "must be a dict with a field 'tokens', but it is .*field=None"),
        ({"ids": np.zeros(3)}, "tokens", "must be a dict with a field 'tokens', but it is"),
        ({"tokens": np.int64(3)}, "tokens", "must be an array of numbers with one axis"),
        ({"tokens": np.array(["a"])}, "tokens", "must be an array of numbers with one axis"),
        (
            {"tokens": np.zeros(3), "mask": np.zeros(2)},
            "tokens",
            "has 3 tokens, and field 'mask' must have one entry for each, or be one number",
        ),
        (
            {"tokens": np.zeros(3), "positions": np.zeros(3)},
            "tokens",
            "has a field 'positions' already",
        ),
    ],
)
def test_an_element_without_tokens_is_an_error_that_says_what_to_do(method, element, field, match):
    it = iter(Dataset.from_sequence([element]).pack(4, field, method))

    with pytest.raises(ElementError, match=f"^pack: .*{match}"):
        next(it)


@pytest.mark.parametrize(("dtype", "pad"), [(np.uint8, -1), (np.float16, 10**6)])
def test_padding_that_does_not_fit_the_dtype_is_an_error(dtype, pad):
    it = iter(Dataset.from_sequence([np.zeros(3, dtype)]).pack(5, field=None, pad=pad))

    with pytest.raises(
        ElementError, match=f"pad={pad} does not fit the tokens, which are {np.dtype(dtype)}"
    ):
        next(it)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"capacity": 0}, "capacity must be an integer of at least 1, not 0"),
        ({"capacity": 2.5}, "capacity must be an integer of at least 1, not 2.5"),
        ({"capacity": 2**31}, "capacity must be at most 2147483646, not 2147483648"),
        ({"buffer": 0}, "buffer must be an integer of at least 1, not 0"),
        ({"method": "tight"}, "method must be one of 'best_fit', .*, not 'tight'"),
        ({"split_long": "keep"}, "split_long must be one of 'cut', 'error', 'drop', not 'keep'"),
        ({"field": 3}, "field must be the name of a field or None, not 3"),
        ({"field": "positions"}, "field must not be 'positions'"),
        ({"pad": "x"}, "pad must be an integer or None, not 'x'"),
        ({"method": "concat", "split_long": "drop"}, ".* so split_long must be 'cut', not 'drop'"),
    ],
)
def test_bad_arguments_are_refused_at_once(kwargs, match):
    with pytest.raises(DatasetError, match=f"^pack: {match}"):
        documents([1]).pack(**{"capacity": 10, **kwargs})


def test_a_state_does_not_fit_other_documents():
    it = documents([9, 5, 5, 5, 5]).pack(10, buffer=2).iterator()
    assert next(it)["cu_seqlens"].tolist() == [0, 5, 10]
    state = it.state()

    with pytest.raises(StateError, match="pack: element .* is not the one that waited"):
        list(documents([0, 5, 5, 5, 5]).pack(10, buffer=2).iterator(state))


@pytest.mark.parametrize(
    ("dataset", "cardinality"),
    [
        (documents([]), 0),
        (documents([1, 2]), UNKNOWN),
        (documents([1, 2]).repeat(), INFINITE),
    ],
)
def test_only_reading_tells_how_many_packs_there_are(dataset, cardinality):
    assert dataset.pack(10).cardinality() == cardinality


def test_an_endless_input_is_packed_as_it_comes():
    endless = Dataset.counter().map(lambda n: np.arange(1 + n % 7)).pack(16, None, buffer=8)

    assert all(len(pack["tokens"]) > 12 for pack in endless.take(50))


def figures(dataset):
    """Read *dataset*, and return what its operators made, by their names."""
    elements = iter(dataset)
    list(elements)
    return {each.operator: each for each in elements.stats().figures}


@pytest.mark.parametrize("method", ["best_fit", "first_fit_decreasing", "concat"])
def test_tokens_and_padding_are_counted(method):
    made = figures(documents([3, 9, 4, 25]).pack(10, method=method, pad=0))["pack"]

    packs = [
        pack["segment_ids"] for pack in documents([3, 9, 4, 25]).pack(10, method=method, pad=0)
    ]
    padding = sum(int((ids == 0).sum()) for ids in packs)
    assert (made.unit, made.made) == ("tokens", 41)
    assert made.padding_share == pytest.approx(padding / (10 * len(packs)))
    assert made.per_second > 0


def test_packs_without_padding_have_no_padding_share():
    assert figures(documents([3, 9, 4]).pack(10))["pack"].padding_share is None
