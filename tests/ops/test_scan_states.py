"""Elements inside states."""

import base64
import json

import numpy as np
import pytest

from penstock.element import leaves
from penstock.ops.scan import from_state, to_state

ELEMENTS = [
    "tëxt\ud800",
    b"\x00\xff",
    {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "b": ("x", b"y")},
    np.array([["a", "b\x00"], ["", "c"]], object),
    np.float32(1.5),
    np.zeros((0, 3)),
]


@pytest.mark.parametrize("element", ELEMENTS, ids=repr)
def test_an_element_comes_back_from_json_as_it_was(element):
    back = from_state(json.loads(json.dumps(to_state(element))), element)

    np.testing.assert_equal(back, element)
    for one, other in zip(leaves(back), leaves(element), strict=True):
        assert type(one) is type(other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)


def test_what_is_no_element_is_refused():
    with pytest.raises(ValueError, match="no element"):
        from_state([{"what": 1}], 1)


def test_an_array_with_a_damaged_header_is_refused():
    [packed] = to_state(np.arange(3))
    file = base64.b64decode(packed["array"]).replace(b"(3,), }", b"(3 ,  ((")

    with pytest.raises(ValueError, match="no array"):
        from_state([{"array": base64.b64encode(file).decode()}], 1)
