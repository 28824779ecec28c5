"""Fingerprints are equal wherever the same code runs."""

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import decode, encode
from penstock.serialization.fingerprint import fingerprint
from tests.serialization.digests import digest

SCRIPT = """
import abc, collections, enum, functools, re, sys
from dataclasses import dataclass, field
from pathlib import PurePosixPath
import numpy as np
from penstock import Dataset
from penstock.serialization.fingerprint import fingerprint

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


@pytest.mark.slow
def test_processes_with_other_hashes_in_two_places_have_one_fingerprint(tmp_path):
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
        printed = list(pool.map(run, range(4)))

    assert len(set(printed)) == 1
    assert re.fullmatch(r"([0-9a-f]{32}) \1 \[.*\]\n", printed[0])


@pytest.mark.parametrize("line", [1, 30, 300, 1000])
def test_a_class_inside_a_function_may_stand_in_any_line(line):
    source = """def make(x):
        class Inner:
            limits = 30, 300, 1000
            def run(self, x):
                self.b, self.a, self.c = x, x, x
            deep = lambda: 300
        return Inner().run(x)
"""
    first, moved, changed = {}, {}, {}
    exec(source, first)
    exec("\n" * line + source, moved)
    exec(source.replace("300, 1000", "301, 1000"), changed)

    assert digest(moved["make"]) == digest(first["make"]) != digest(changed["make"])


def _path(folder):
    penstock = os.path.dirname(os.path.dirname(sys.modules["penstock"].__file__))
    return os.pathsep.join([str(folder), penstock])


def test_a_decoded_pipeline_has_the_fingerprint_it_was_sent_with():
    table = np.arange(5000)
    ds = Dataset.range(10).map(lambda x: table[x]).batch(2)

    definition = encode(ds.node)

    assert definition.fingerprint == fingerprint(ds.node) == fingerprint(decode(definition))


@pytest.mark.slow
def test_a_local_package_may_lie_anywhere(tmp_path):
    texts = {
        "helpers/__init__.py": "from . import inner\nUNUSED = object()\n",
        "helpers/inner.py": "K = 3\ndef f(x): return x * K\ndef g(x): return x\n",
        "main.py": """
            import helpers
            from penstock import Dataset
            from penstock.serialization.fingerprint import fingerprint
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
