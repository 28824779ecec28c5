"""Digests of single values, and what cannot be compared."""

import inspect
import logging
import threading
import types

import numpy as np
import pytest

from penstock.serialization.digest import ContentKeys, Digester
from tests.serialization.digests import digest, of

# --- single values ---


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: (2, [object]), "b": 2}, {"b": 2, 1: (2, [object])}),
        ({"x", "y", 1}, {1, "y", "x"}),
        (frozenset({(1, object), (2, int)}), frozenset({(2, int), (1, object)})),
        (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        (np.arange(6)[::2], np.array([0, 2, 4])),
        ("ab" * 50, "".join(["ab"] * 50)),
        ([1, 2.5, "x"] * 100, [1, 2.5, "x"] * 100),
    ],
)
def test_equal_values_have_equal_digests(one, other):
    assert digest(one) == digest(other)


def test_a_mapped_array_is_the_array_it_maps(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5000))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")

    assert digest(mapped) == digest(np.arange(5000))


def test_values_that_hold_themselves_have_digests():
    def ring(n, label):
        first = node = {"label": label}
        for _ in range(n - 1):
            node["next"] = {"label": label}
            node = node["next"]
        node["next"] = first
        return first

    assert digest(ring(3, "a")) == digest(ring(3, "a")) == digest(ring(1, "a"))
    assert digest(ring(3, "a")) != digest(ring(3, "b"))


def test_cycles_are_told_apart_wherever_a_walk_begins():
    def pair(p_first, q_second):
        p, q = ["p"], ["q"]
        p += [q, q]
        q += [p, p] if q_second else [p, q]
        return p if p_first else q

    assert digest(pair(True, True)) != digest(pair(True, False))
    assert digest(pair(False, True)) != digest(pair(False, False))
    assert digest([pair(True, True), pair(False, True)]) == digest(
        [pair(True, True), pair(False, True)]
    )


def test_a_member_of_a_cycle_has_one_digest_from_everywhere():
    def first(x):
        return second(x) if x else first(x)

    def second(x):
        return first(x)

    both = Digester(ContentKeys())
    both.digest(first)

    assert both.digest(second).hex() == digest(second)


def test_deep_nests_need_no_stack():
    deep = deeper = object
    for _ in range(20_000):
        deep, deeper = [deep], [deeper]

    assert digest(deep) == digest(deeper)


def test_many_functions_that_use_each_other_take_little_time():
    names = {}
    source = "".join(
        f"def f{i}(x): return {' + '.join(f'f{j}(x)' for j in range(40))} + {i}\n"
        for i in range(40)
    )
    exec(source, names)

    digests = {digest(names[f"f{i}"]) for i in range(40)}

    assert len(digests) == 40


def test_records_are_compared_fast():
    records = [(f"file{i}.png", i % 10) for i in range(100_000)]
    digester = Digester(ContentKeys())

    made = digester.parts(records)

    assert made.children == ()
    assert digest(records) != digest([*records[:-1], ("file99999.png", 0)])


# --- what cannot be compared ---


def test_what_cannot_be_compared_is_compared_by_type_with_one_line(caplog):
    def fn(locks):
        return lambda x: (x, locks)

    with caplog.at_level(logging.WARNING, "penstock"):
        prints = {of(fn([threading.Lock(), threading.Lock()])) for _ in range(2)}

    assert len(prints) == 1
    assert len(caplog.records) == 2
    assert "compared by type and name only: _thread.lock" in caplog.text
    assert of(fn([threading.Lock()])) not in prints


def test_a_module_is_the_same_when_its_annotations_have_been_read():
    module = types.ModuleType("annotated")
    exec("LIMIT: int = 3\nif LIMIT:\n    OTHER: str = 'b'", vars(module))
    before = digest(module)

    assert inspect.get_annotations(module) == {"LIMIT": int, "OTHER": str}
    assert digest(module) == before
    module.LIMIT = 4
    assert digest(module) != before
