"""What `distribute` is told about elements that cannot be made."""

import pytest

from penstock.errors import DatasetError
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock.reader.error_policy import error_policy_of

REQUEST = OpenIterationRequest(
    Versions(PROTOCOL, "3.11", "0"), "d", Mode.DYNAMIC, "j", 1, Codec.NONE
)


@pytest.mark.parametrize("most", [None, 0, 7])
def test_what_is_asked_for_is_requested(most):
    asked = error_policy_of("skip", most, coordinated=False)

    sent = asked.requested(REQUEST)

    assert (sent.on_error, sent.max_errors) == ("skip", most)


def test_errors_are_raised_unless_something_else_is_asked_for():
    sent = error_policy_of("raise", None, coordinated=True).requested(REQUEST)

    assert (sent.on_error, sent.max_errors) == ("raise", None)


@pytest.mark.parametrize(
    ("on_error", "max_errors", "coordinated", "words"),
    [
        ("ignore", None, False, "on_error must be 'raise' or 'skip', not 'ignore'"),
        (None, None, False, "on_error must be 'raise' or 'skip', not None"),
        ("raise", 3, False, "max_errors=3 is for on_error='skip'"),
        ("skip", -1, False, "max_errors .*-1"),
        ("skip", 1.5, False, "max_errors .*1.5"),
        ("skip", True, False, "max_errors .*True"),
        ("skip", None, True, "num_consumers exclude each other.*ignore_errors"),
    ],
)
def test_what_makes_no_sense_is_named_with_a_remedy(on_error, max_errors, coordinated, words):
    with pytest.raises(DatasetError, match=words):
        error_policy_of(on_error, max_errors, coordinated=coordinated)


def test_under_static_sharding_nothing_is_skipped():
    with pytest.raises(DatasetError, match="static sharding exclude each other.*ignore_errors"):
        error_policy_of("skip", None, coordinated=False, static=True)
