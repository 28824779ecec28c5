"""What processes say to each other, as values."""

import pytest

from penstock.errors import Overloaded, TransformError
from penstock.protocol.types import Failure, SourceSlice, Versions


def test_functions_travel_between_equal_minor_versions():
    assert Versions(1, "3.11.7", "0.1.0").minor == Versions(1, "3.11.0rc1", "0.2.0").minor == "3.11"


def test_an_error_comes_back_with_its_class_and_fields():
    error = TransformError("map(decode)", 7, "ValueError: no", "w:1", "Traceback ...", "b'x'")

    back = Failure.of(error).error()

    assert type(back) is TransformError
    assert back.fields() == error.fields()
    assert Failure.of(Overloaded("full")).error().retryable


def test_what_utf8_cannot_say_is_escaped():
    assert Failure.of(Overloaded("a\ud800b")).fields == ("a\\ud800b",)


@pytest.mark.parametrize("cut", [SourceSlice(), SourceSlice(2), SourceSlice(1, 8, 3)], ids=str)
def test_a_slice_of_a_source_is_that_of_python(cut):
    assert list(cut.of(range(10))) == list(range(10))[cut.start : cut.stop : cut.step]
