"""Which objects of a user can be sent, and how the others are named."""

import functools
import logging
import operator
import threading

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import DefinitionError
from penstock.serialization import pickling
from tests.sent_definitions import VOCABULARY, Lazy, closing_over, travelled

# --- what cannot be sent ---


def held_lock():
    lock = threading.Lock()
    return lambda x: (lock, x), "closure variable 'lock'"


class WithLock:
    def __init__(self):
        self.guard = threading.Lock()

    def decode(self, x):
        return x


LOCK = threading.Lock()
READER = WithLock()


def uses_global(x):
    with LOCK:
        return x


def calls_global(x):
    return uses_global(x)


def refuse():
    raise ValueError("not today")


class Refuses:
    def __getstate__(self):
        return refuse()


REFUSES = Refuses()

UNPICKLABLE = [
    (*held_lock(), "_thread.lock"),
    (lambda x, guard=LOCK: x, "default of 'guard'", "_thread.lock"),
    (lambda x, *, guard=LOCK: x, "default of 'guard'", "_thread.lock"),
    (uses_global, "global 'LOCK'", "_thread.lock"),
    (calls_global, "global 'LOCK' of global 'uses_global'", "_thread.lock"),
    (lambda x: READER.decode(x), "attribute 'guard' of global 'READER'", "_thread.lock"),
    (READER.decode, "attribute 'guard' of its object", "_thread.lock"),
    (functools.partial(operator.add, LOCK), "argument 0", "_thread.lock"),
    (functools.partial(pow, mod={"a": [1, LOCK]}), "item 1 of key 'a' of argument 'mod'", "lock"),
    (lambda x: REFUSES, "global 'REFUSES'", "Refuses"),
    (LOCK.acquire, "its object", "_thread.lock"),
]


@pytest.mark.parametrize(("fn", "where", "what"), UNPICKLABLE, ids=[c[1] for c in UNPICKLABLE])
def test_what_cannot_be_sent_is_named(fn, where, what):
    node = Dataset.range(3).map(fn).node

    with pytest.raises(DefinitionError, match=f"^map.*: {where} holds an? .*{what}, which cannot"):
        encode(node)


def test_what_an_object_says_when_it_refuses_is_passed_on():
    with pytest.raises(DefinitionError, match=r"to a worker \(ValueError: not today\); create"):
        encode(Dataset.range(3).map(lambda x: REFUSES).node)


def test_the_error_names_the_operator_that_is_at_fault():
    ds = Dataset.range(3).map(abs).map(uses_global).map(abs)

    with pytest.raises(DefinitionError, match=r"^map\(uses_global\): global 'LOCK' holds"):
        encode(ds.node)


def test_what_nests_too_deeply_is_an_error_of_one_line():
    deep = None
    for _ in range(200_000):
        deep = [deep]

    with pytest.raises(
        DefinitionError, match="^map.*closure variable 'held' holds.*recursion"
    ) as got:
        encode(closing_over(deep))

    assert len(str(got.value)) < 500


# --- what can be sent though pickle alone would not ---


@functools.lru_cache(maxsize=7)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_a_cached_recursive_function_travels_with_its_cache_empty():
    fibonacci(10)

    fn = travelled(Dataset.range(3).map(fibonacci).node).fn

    assert fn is not fibonacci
    assert fn.cache_info() == (0, 0, 7, 0)
    assert fn(30) == 832040


def test_an_object_with_a_cached_property_travels():
    fn = travelled(Dataset.range(3).map(Lazy(5)).node).fn

    assert fn(1) == 6


def test_a_class_body_inside_a_function_finds_its_globals():
    def make(x):
        class Local:
            size = len(VOCABULARY)

        return Local.size + x

    fn = travelled(Dataset.range(3).map(make).node).fn

    assert fn(1) == 11


def test_loggers_and_modules_travel_by_name():
    log = logging.getLogger("some.name")

    fn = travelled(Dataset.range(3).map(lambda x: (log, np, x)).node).fn

    assert fn(1)[:2] == (log, np)


class EndsTheProcess:
    def __call__(self, x):
        return x

    def __getstate__(self):
        return {"any": 1}

    def __setstate__(self, state):
        raise SystemExit("at load")


def test_an_exit_while_an_object_is_loaded_names_its_owner():
    made = pickling.dump([("map(EndsTheProcess)", EndsTheProcess())])

    with pytest.raises(DefinitionError, match=r"map\(EndsTheProcess\) cannot be loaded .*at load"):
        pickling.load(*made)
