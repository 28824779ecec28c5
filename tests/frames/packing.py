"""Elements packed into frames and back, and when two of them are the same."""

from typing import NamedTuple

import numpy as np

from penstock.frames.frame import FrameBuilder, unpack


class Point(NamedTuple):
    x: object
    y: object


def pack(block, **limits):
    """Return *block* as frames: (layout, payload) pairs."""
    builder, frames = FrameBuilder(**limits), []
    while block:
        block = block[builder.add(block) :]
        if builder.ready() or not block:
            layout, elements = builder.take()
            payload = bytearray(layout.nbytes + 7)
            layout.write(elements, memoryview(payload)[: layout.nbytes])
            assert payload[layout.nbytes :] == bytes(7)
            frames.append((layout.to_bytes(), bytes(payload[: layout.nbytes])))
    return frames


def there_and_back(block, **limits):
    return [element for frame in pack(block, **limits) for element in unpack(*frame)]


def same(one, other):
    """Say whether two elements are equal in every respect but the address of a named tuple."""
    if isinstance(one, tuple):
        fields = [getattr(value, "_fields", None) for value in (one, other)]
        names = [type(value).__name__ for value in (one, other)]
        alike = fields[0] == fields[1] and names[0] == names[1] and len(one) == len(other)
        return alike and all(map(same, one, other))
    if isinstance(one, dict):
        return (
            type(other) is dict
            and list(one) == list(other)
            and all(map(same, one.values(), other.values()))
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype == object:
            return one.tolist() == other.tolist()
        # Bit by bit, but for the gaps between fields and in long doubles.
        if one.dtype.kind == "V" or one.dtype.char in "gG":
            return str(one) == str(other)
        return one.tobytes() == other.tobytes()
    return one == other


def check(block, **limits):
    back = there_and_back(block, **limits)
    assert len(back) == len(block)
    for one, other in zip(block, back, strict=True):
        assert same(one, other), (one, other)


def arrays_of(element):
    if isinstance(element, (tuple, dict)):
        parts = element.values() if isinstance(element, dict) else element
        return [array for part in parts for array in arrays_of(part)]
    return [element] if isinstance(element, np.ndarray) else []
