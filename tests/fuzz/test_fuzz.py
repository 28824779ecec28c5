"""A short part of `make fuzz`, always the same."""

import pytest

from fuzz.__main__ import fuzz
from fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_input_is_read_or_refused_with_an_error_of_ours(target):
    outcomes, faults = fuzz(target, 1, range(25 * target.share))

    assert not faults, "\n".join(f"--only {number}\n{fault}" for number, fault in faults)
    assert outcomes.total() == 25 * target.share
