"""What messages say to do, each tried: it makes an element, or ends the error."""

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import sys
import types
import uuid
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from penstock.cures import of_error, of_value
from penstock.dataset.dataset import Dataset
from penstock.errors import ElementError, TransformError
from penstock.normalise import normalise


@dataclasses.dataclass
class Sample:
    x: int = 1


class Kind(enum.Enum):
    CAT = 1


def yielding():
    yield 1


CURED = {
    "dataclasses.asdict(value)": Sample(),
    "str(value)": Path("a"),
    "np.asarray(value)": Image.new("RGB", (2, 2)),
    "value.value": Kind.CAT,
    "np.datetime64(value)": dt.date(2026, 1, 1),
    "np.timedelta64(value)": dt.timedelta(1),
    "float(value)": decimal.Decimal(1),
    "value.bytes": uuid.UUID(int=1),
    "vars(value)": types.SimpleNamespace(a=1),
    "dict(value)": collections.UserDict(a=1),
    "np.array(sorted(value))": {2, 1},
    "tuple(value)": range(3),
    "np.array(list(value))": map(int, "12"),
}


@pytest.mark.parametrize("cure", CURED)
def test_what_the_message_says_makes_an_element(cure):
    value = CURED[cure]
    with pytest.raises(ElementError) as told:
        normalise(value)

    assert cure in str(told.value)
    normalise(eval(cure, {"value": value, "np": np, "dataclasses": dataclasses}))


def test_values_of_a_source_are_cured_alike():
    for value, cure in ((Path("a"), r"str\(value\)"), (Kind.CAT, "value.value")):
        with pytest.raises(ElementError, match=cure):
            Dataset.from_tensor_slices([value])
        with pytest.raises(TransformError, match=cure):
            list(Dataset.from_sequence([value]))
    with pytest.raises(ElementError, match="numeric dtype"):
        Dataset.from_tensor_slices(np.array([object()]))


def test_a_generator_and_a_coroutine_say_what_the_function_must_be():
    async def later():
        return 1

    assert "flat_map" in of_value(yielding())
    waiting = later()
    assert "asyncio.run" in of_value(waiting)
    assert asyncio.run(waiting) == 1
    assert "call it" in of_value(yielding)
    assert "use arrays" in of_value(object())


def with_rng(x, rng):
    return x + rng.integers(1)


def of_one(x):
    return x


def of_two(x, y):
    return x


@pytest.mark.parametrize(
    ("dataset", "cure"),
    [
        (Dataset.range(2).map(with_rng), r"missing .*'rng'; rng must be a keyword-only parameter"),
        (Dataset.from_tensor_slices(([1], [2])).map(of_one), r"a tuple gives one .* here 2;"),
        (Dataset.range(2).map(of_two), r"'y'; an element that is no tuple is one argument"),
    ],
)
def test_a_call_that_does_not_fit_says_how_elements_become_arguments(dataset, cure):
    with pytest.raises(TransformError, match=cure):
        list(dataset)


def test_an_error_of_the_functions_own_calls_is_left_as_it_is():
    with pytest.raises(TransformError) as told:
        list(Dataset.range(2).map(lambda x: of_two(x)))

    assert told.value.detail.endswith("'y'")


@pytest.mark.usefixtures("function_processes_end")
@pytest.mark.parametrize("call", ["breakpoint()", "input('? ')"])
def test_a_process_without_a_terminal_says_so(call, monkeypatch):
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    code = compile(call, "<string>", "eval")

    def asks(x):
        return eval(code) or x

    with pytest.raises(TransformError, match=r"needs a terminal|nobody to answer") as told:
        list(Dataset.range(2).map(asks, num_parallel_calls=1, executor="process"))
    assert "process" in told.value.detail


def test_an_error_that_says_enough_gets_no_more():
    assert of_error(ValueError("no"), 1) == ""
    assert of_error(TypeError("no"), 1) == ""


@pytest.mark.skipif("torch" in sys.modules, reason="torch is here")
def test_the_message_about_bfloat16_names_the_extra_and_another_way(monkeypatch):
    class Tensor:
        dtype = "torch.bfloat16"

        def detach(self):
            return self

        cpu = detach

        def element_size(self):
            return 2

        def view(self, _):
            return np.zeros(2, np.int16)

        def __array__(self):
            raise TypeError("Got unsupported ScalarType BFloat16")

    Tensor.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(int16=None))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)

    with pytest.raises(ImportError, match=r"tensor\.float.*pip install .penstock\[torch\]"):
        normalise(Tensor())
