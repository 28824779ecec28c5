"""Fingerprints differ for any change that matters, and for no other; differences are explained."""

import collections
import enum
import fractions
import functools
import logging
import math
import operator
import os
import pathlib
import re
from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.serialization.fingerprint import explain_difference, fingerprint
from tests.serialization.digests import of

SCALE = 2
BIG = np.arange(3000)
COUNT = 0


def plus_one(x):
    return x + 1


class Counter:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x + self.k


class Doubler(Counter):
    def __call__(self, x):
        return 2 * super().__call__(x)


def closing_over(value):
    return lambda x: (x, value)


DIFFERENT = [
    lambda x: x,
    lambda y: y,
    lambda x: x + 1,
    lambda x: x + 2,
    lambda x: x + 1.0,
    lambda x: x + True,
    lambda x: x - 1,
    lambda x: x.real,
    lambda x: x.imag,
    lambda x: x + SCALE,
    lambda x, k=1: x,
    lambda x, k=2: x,
    lambda x, *, k=2: x,
    lambda x: (lambda y: y + 1)(x),
    lambda x: (lambda y: y + 2)(x),
    lambda x: [y + 1 for y in (x,)],
    lambda x: {y + 1 for y in (x,)},
    lambda x: x in {"a", "b"},
    lambda x: x in {"a", "c"},
    lambda x: BIG[x],
    Counter(1),
    Counter(2),
    Doubler(1),
    Counter(1).__call__,
    functools.partial(plus_one),
    functools.partial(plus_one, 1),
    functools.partial(operator.add, 1),
    functools.partial(operator.add, 2),
    functools.partial(operator.sub, 2),
    abs,
    operator.neg,
    np.sin,
    np.cos,
    str.lower,
    str.upper,
    {1: 2}.get,
    {1: 3}.get,
    [].append,
    functools.lru_cache(plus_one),
    functools.lru_cache(maxsize=3)(plus_one),
    *map(
        closing_over,
        [
            None,
            0,
            0.0,
            -0.0,
            False,
            0j,
            math.nan,
            math.inf,
            "0",
            b"0",
            1 << 70,
            -1 << 70,
            (),
            [],
            {},
            set(),
            frozenset(),
            (0,),
            [0],
            {0: 0},
            {0},
            {0: 1},
            {"0": 0},
            ((0,), 0),
            (0, (0,)),
            [[0], [1]],
            [(0,), (1,)],
            [{"a": 1}],
            [{"a": 2}],
            object,
            int,
            bytearray(b"0"),
            range(3),
            range(4),
            slice(3),
            re.compile("a"),
            re.compile("a", re.IGNORECASE),
            pathlib.PurePosixPath("a"),
            pathlib.PurePosixPath("b"),
            fractions.Fraction(1, 2),
            collections.OrderedDict(a=1, b=2),
            collections.OrderedDict(b=2, a=1),
            collections.deque([1]),
            collections.deque([1], 1),
            collections.Counter("ab"),
            np.dtype("i4"),
            np.dtype("i8"),
            np.dtype([("a", "i4")]),
            np.int32(0),
            np.int64(0),
            np.arange(3),
            np.arange(3.0),
            np.arange(3).reshape(1, 3),
            np.array([0, 1, 3]),
            np.array(["a"], object),
            np.array(["b"], object),
            np.random.default_rng(1),
            np.random.default_rng(2),
            Dataset.range(3),
            Dataset.range(4),
            np,
            os,
            logging.getLogger("a"),
            logging.getLogger("b"),
        ],
    ),
]


def test_any_two_of_many_functions_have_different_fingerprints():
    prints = [of(fn) for fn in DIFFERENT]

    redelivered = [n for n, count in collections.Counter(prints).items() if count > 1]
    assert redelivered == []
    assert prints == [of(fn) for fn in DIFFERENT]


def test_any_two_of_many_pipelines_have_different_fingerprints():
    r = Dataset.range(10)
    nodes = [
        r,
        Dataset.range(11),
        Dataset.range(0, 20, 2),
        r.batch(2),
        r.batch(3),
        r.batch(2, drop_remainder=True),
        r.map(abs),
        r.map(abs, num_parallel_calls=2),
        r.map(abs).batch(2),
        r.batch(2).map(abs),
        r.map(abs).map(abs),
    ]

    assert len({fingerprint(ds.node) for ds in nodes}) == len(nodes)


def test_one_element_of_a_large_array_makes_a_difference(monkeypatch):
    before = of(lambda x: BIG[x])
    changed = BIG.copy()
    changed[1234] += 1
    monkeypatch.setitem(globals(), "BIG", changed)

    assert of(lambda x: BIG[x]) != before


def test_a_global_makes_a_difference_through_other_functions(monkeypatch):
    def outer(x):
        return inner_of_outer(x)

    before = of(outer)
    monkeypatch.setitem(globals(), "SCALE", 3)

    assert of(outer) != before


def inner_of_outer(x):
    return x * SCALE


def test_names_that_are_not_used_make_none(monkeypatch):
    before = of(lambda x: x * SCALE)
    monkeypatch.setitem(globals(), "COUNT", 99)

    assert of(lambda x: x * SCALE) == before


def test_what_a_function_assigns_itself_is_its_state(monkeypatch):
    def count(x):
        global COUNT
        COUNT += 1
        return x

    before = of(count)
    count(1)

    assert COUNT == 1
    assert of(count) == before
    monkeypatch.setitem(globals(), "COUNT", 0)


# --- what differs ---


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2


@dataclass
class Options:
    k: int = 1
    names: list = field(default_factory=list)


r = Dataset.range(10)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (r, r, ""),
        (r, Dataset.range(11), "range: stop is 10 in one and 11 in the other"),
        (r.batch(2), r.batch(3), "batch: size is 2 in one and 3 in the other"),
        (r.map(abs), r.batch(2), "the operators differ: range → map in one, range → batch"),
        (
            r.map(plus_one),
            r.map(inner_of_outer),
            "map(plus_one), now map(inner_of_outer): its code",
        ),
        (r.map(lambda x: x), r.map(lambda x: -x), "map(<lambda>): its code differs"),
        (r.map(lambda x, k=1: x), r.map(lambda x, k=2: x), "map(<lambda>): default of 'k' differs"),
        (r.map(closing_over(1)), r.map(closing_over(2)), "map(<lambda>): closure variable 'value'"),
        (r.map(Counter(1)), r.map(Counter(2)), "map(Counter): attribute 'k' differs"),
        (r.map(Counter(1)), r.map(Doubler(1)), "map(Counter), now map(Doubler): the class differs"),
        (r.map(abs), r.map(operator.neg), "map(abs), now map(neg): parameter fn differs"),
        (r.map({1: 2}.get), r.map({1: 3}.get), "map(dict.get): its object differs"),
        (
            r.map(functools.partial(pow, mod=Options(1))),
            r.map(functools.partial(pow, mod=Options(2))),
            "map(partial): argument 'mod' differs",
        ),
        (
            r.map(closing_over(Shade.DARK)),
            r.map(closing_over(Shade.LIGHT)),
            "map(<lambda>): closure variable 'value' differs",
        ),
    ],
)
def test_a_difference_is_explained(one, other, words):
    said = explain_difference(one.node, other.node)

    assert said.startswith(words)
    assert bool(said) == bool(words)
    assert explain_difference(encode(one.node), encode(other.node)) == said


def test_a_changed_global_is_named(monkeypatch):
    before = encode(r.map(inner_of_outer).node)
    monkeypatch.setitem(globals(), "SCALE", 3)

    said = explain_difference(before, r.map(inner_of_outer).node)

    assert said == "map(inner_of_outer): global 'SCALE' differs"


def test_a_file_that_was_rewritten_is_named_with_both_versions(tmp_path):
    (tmp_path / "a.txt").write_text("same")

    def shuffled(lines):
        (tmp_path / "b.txt").write_text("x\n" * lines)
        os.utime(tmp_path / "b.txt", ns=(0, lines * 10**9))
        return encode(Dataset.text_lines(tmp_path / "*.txt").global_shuffle(1).node)

    said = explain_difference(shuffled(2), shuffled(3))

    assert said == (
        f"text_lines: the file {tmp_path}/b.txt is 4 bytes, changed 1970-01-01 00:00:02.000 UTC in "
        "one and 6 bytes, changed 1970-01-01 00:00:03.000 UTC in the other"
    )
