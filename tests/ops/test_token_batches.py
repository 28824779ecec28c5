import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError
from tests.ops.packs import document, made, token_batches

LENGTHS = [5, 3, 9, 2, 2, 10, 1, 0, 6, 4, 8, 3, 3, 1, 10, 2, 5]


def documents(lengths):
    return Dataset.from_sequence(list(enumerate(lengths))).map(document)


def test_batches_are_those_of_a_slow_model_from_every_state(check_states):
    check_states(
        lambda: documents(LENGTHS).token_batches(10),
        [made(held) for held in token_batches(LENGTHS, 10)],
    )


@given(lengths=st.lists(st.integers(0, 12), max_size=40), more=st.integers(0, 9))
def test_any_sequences_come_once_in_their_order_in_batches_that_are_small_enough(lengths, more):
    most = max([1, *lengths]) + more

    batches = list(documents(lengths).token_batches(most))

    tokens = [token for batch in batches for token in batch["tokens"].tolist()]
    assert tokens == [
        token for i, n in enumerate(lengths) for token in document(i, n)["tokens"].tolist()
    ]
    assert all(0 < len(batch["tokens"]) <= most for batch in batches)
    assert [batch["cu_seqlens"].tolist() for batch in batches] == [
        made(held)["cu_seqlens"].tolist() for held in token_batches(lengths, most)
    ]


def test_a_sequence_that_is_too_long_is_an_error_in_its_place(check_states):
    check_states(lambda: documents([3, 4, 11, 5, 12, 9, 1]).token_batches(10))
    it = iter(documents([3, 11, 4]).token_batches(10))

    with pytest.raises(ElementError, match="token_batches: element 1 has 11 tokens, more than"):
        next(it)
    assert [batch["cu_seqlens"].tolist() for batch in it] == [[0, 3, 7]]


def test_bare_arrays_are_sequences_too():
    (batch,) = Dataset.from_sequence([3, 2]).map(np.ones).token_batches(5, field=None)

    assert batch["tokens"].tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"max_tokens": 0}, "max_tokens must be an integer of at least 1, not 0"),
        ({"max_tokens": 2**31}, "max_tokens must be at most"),
        ({"field": b"x"}, "field must be the name of a field or None, not b'x'"),
    ],
)
def test_bad_arguments_are_refused_at_once(kwargs, match):
    with pytest.raises(DatasetError, match=f"^token_batches: {match}"):
        documents([1]).token_batches(**{"max_tokens": 10, **kwargs})


def test_tokens_are_counted():
    elements = iter(Dataset.from_sequence([3, 4, 2]).map(np.zeros).token_batches(8, field=None))
    list(elements)

    (found,) = elements.stats().figures
    assert (found.operator, found.unit, found.made) == ("token_batches", "tokens", 9)
    assert found.padding_share is None
