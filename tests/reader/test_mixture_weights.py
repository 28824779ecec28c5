"""Arguments of `set_weights` that cannot be meant are refused before a dispatcher is called."""

import numpy as np
import pytest

from penstock.errors import DatasetError, WaitedTooLong
from penstock.service import set_weights

NOBODY = "localhost:1"


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"web": -1}, "at least 0"),
        ({"web": float("nan")}, "finite"),
        ({"web": "much"}, "finite"),
        ({"web": 0}, "positive"),
        ({}, "positive"),
        ([("web", 1)], "dict"),
        ({1: 1}, "by strings, not 1"),
        ({"web": 10**400}, "finite"),
    ],
)
def test_weights_that_make_no_mixture_are_refused(weights, said):
    with pytest.raises(DatasetError, match=said):
        set_weights(NOBODY, "job", weights)


@pytest.mark.parametrize("at", [-1, 0.5, True, "3", 1 << 62])
def test_a_turn_is_a_whole_number(at):
    with pytest.raises(DatasetError, match="at must be a turn"):
        set_weights(NOBODY, "job", {"web": 1}, at=at)


def test_a_turn_may_be_an_integer_of_numpy():
    with pytest.raises(WaitedTooLong):
        set_weights(NOBODY, "job", {"web": 1}, at=np.int64(5), timeout=0.1)


@pytest.mark.parametrize("job", ["", None, 3])
def test_a_job_has_a_name(job):
    with pytest.raises(DatasetError, match="job_name must be the name of a job"):
        set_weights(NOBODY, job, {"web": 1})


def test_the_service_is_an_address():
    with pytest.raises(DatasetError, match="service"):
        set_weights("", "job", {"web": 1})
