"""Fingerprints: equal wherever the same code runs, different for any change that matters."""

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
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock import Dataset
from penstock.definition import encode
from penstock.fingerprint import explain_difference, fingerprint
from penstock.travel.contents import ContentKeys
from penstock.travel.digest import Digester


def digest(value):
    return Digester(ContentKeys()).digest(value).hex()


def of(fn):
    return fingerprint(Dataset.range(4).map(fn).node)


# --- the same everywhere ---

SCRIPT = """
import abc, collections, enum, functools, re, sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath
import numpy as np
from penstock import Dataset
from penstock.fingerprint import fingerprint

STOP = {"the", "a", "an", "of", "in"}
TABLE = {"b": [1, 2.0], "a": {"x": (None, b"y")}, 3: frozenset({"p", "q"})}
WEIGHTS = np.linspace(0, 1, 5000)
PATTERN = re.compile(r"\\w+", re.I)
Point = collections.namedtuple("Point", "x y")

class Colour(enum.Enum):
    RED = 1
    GREEN = frozenset({"g", "h", "i"})

@dataclass
class Config:
    name: str
    words: set = field(default_factory=lambda: {"one", "two", "three"})
    colour: Colour = Colour.GREEN

class Base(abc.ABC):
    @abc.abstractmethod
    def run(self, x): ...

class Scale(Base):
    KINDS = {"s", "t", "u"}
    __slots__ = ("k", "seen", "parent")
    def __init__(self, k):
        self.k, self.seen, self.parent = k, {"q", "r", "s"}, self
    def run(self, x):
        return super().__class__ and x * self.k
    def __call__(self, x):
        return self.run(x) if x in self.KINDS else helper(x)
    @property
    def double(self): return self.k * 2
    @staticmethod
    def static(x): return x
    @classmethod
    def made(cls): return cls(1)

def helper(x):
    return recursive(x, 2) if x in {"w", "x", "y", "z"} else Scale

def recursive(x, n):
    return helper(x) if n == 0 else recursive(x, n - 1)

def closure(k):
    values = np.arange(k)
    words = {"m", "n", "o"}
    def inner(x, *, scale=1.5):
        nested = lambda y: [z for z in words if z != y] or {a: b for a, b in TABLE.items()}
        return nested(x), values[x], scale
    return inner

@functools.lru_cache
def cached(x): return x

def spread(x, config=Config("c"), point=Point(1, 2), path=PurePosixPath("a/b")):
    class Inner:
        size = len(STOP)
    return config, point, path, Colour.RED, PATTERN, Inner, np.float32(3), np.sin, cached(x)

ds = (
    Dataset.range(100)
    .map(closure(5))
    .map(Scale(3))
    .map(functools.partial(spread, config=Config("d", {"e", "f", "g"})))
    .map(lambda x: x if x in STOP else WEIGHTS[len(x)])
    .map(Scale(4).run)
    .batch(4)
)
if __name__ == "__main__":
    from penstock.definition import encode
    import json
    outline = encode(ds.node).outline
    parts = json.dumps([s.digests for s in outline.stages])
    print(fingerprint(ds.node), outline.fingerprint, parts)
"""


def test_eight_processes_and_two_places_have_one_fingerprint(tmp_path):
    first = tmp_path / "one" / "train.py"
    second = tmp_path / "two" / "deeper" / "main.py"
    for file, lines in ((first, 0), (second, 40)):
        file.parent.mkdir(parents=True)
        file.write_text("#\n" * lines + SCRIPT)

    def run(seed):
        # Every other one imports the module instead of running it as the script.
        file = (first, second)[seed % 2]
        code = f"import runpy; runpy.run_module({file.stem!r}, run_name='__main__')"
        done = subprocess.run(
            [sys.executable, *(["-c", code] if seed % 4 > 1 else [str(file)])],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": _path(file.parent)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(run, range(8)))

    assert len(set(printed)) == 1
    assert re.fullmatch(r"([0-9a-f]{32}) \1 \[.*\]\n", printed[0])


def _path(folder):
    penstock = os.path.dirname(os.path.dirname(sys.modules["penstock"].__file__))
    return os.pathsep.join([str(folder), penstock])


def test_a_pipeline_written_twice_has_one_fingerprint():
    def build():
        k = 3
        return (
            Dataset.range(10).map(lambda x: x * k).map(lambda x: [y + 1 for y in (1, k)]).batch(2)
        )

    assert fingerprint(build().node) == fingerprint(build().node)


def test_a_decoded_pipeline_has_the_fingerprint_it_was_sent_with():
    table = np.arange(5000)
    ds = Dataset.range(10).map(lambda x: table[x]).batch(2)

    definition = encode(ds.node)

    assert definition.fingerprint == fingerprint(ds.node) == fingerprint(definition.decode())


def test_a_local_package_may_lie_anywhere(tmp_path):
    texts = {
        "helpers/__init__.py": "from . import inner\nUNUSED = object()\n",
        "helpers/inner.py": "K = 3\ndef f(x): return x * K\ndef g(x): return x\n",
        "main.py": """
            import helpers
            from penstock import Dataset
            from penstock.fingerprint import fingerprint
            def lazily(x):
                from helpers.inner import f
                return f(x)
            print(fingerprint(Dataset.range(3).map(lambda x: helpers.inner.f(x)).node))
            print(fingerprint(Dataset.range(3).map(lazily).node))
            """,
    }

    def run(name, changes=()):
        for file, text in {**texts, **dict(changes)}.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, "main.py"],
            cwd=tmp_path / name,
            env={**os.environ, "PYTHONPATH": _path(".")},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.split()

    first = run("one")

    assert run("two/deep") == first
    assert run("three", {"helpers/inner.py": "K = 3\ndef f(x): return x * K\n"}.items()) == first
    changed = run("four", {"helpers/inner.py": "K = 4\ndef f(x): return x * K\n"}.items())
    assert not set(changed) & set(first)


# --- any change that matters ---

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

    repeated = [n for n, count in collections.Counter(prints).items() if count > 1]
    assert repeated == []
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
