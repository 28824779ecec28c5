"""What makes a pipeline inexact is found; what is exact is left in peace."""

import datetime as dt
import functools
import os
import random
import secrets
import sys
import time
import types
import uuid
from dataclasses import dataclass
from random import choice as pick

import numpy as np
import pytest

from penstock.analysis.determinism import nondeterminism, unjudged
from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.protocol.definition import Definition
from penstock.serialization.fingerprint import fingerprint

SHARED = np.random.default_rng(5)


def of(fn, **kwargs):
    """Return what is said of `map(fn)`."""
    return "; ".join(nondeterminism(Dataset.range(3).map(fn, **kwargs).node))


# --- functions that draw on chance or the clock ---


def import_inside(x):
    import numpy.random as npr

    return npr.rand() + x


def from_import_inside(x):
    from random import randint, uniform

    return uniform(0, 1) + randint(0, 3) + x


def helper(x):
    return x + random.random()


def through_a_helper(x):
    return helper(x)


def in_a_comprehension(x):
    return [random.gauss(0, 1) for _ in range(int(x))]


def in_a_nested_function(x):
    import random as r

    def draw():
        return r.random()

    return draw() + x


def draws_by_default(x, rng=SHARED):
    return x + rng.normal()


def optional_generator(x, rng=None):
    rng = rng or np.random.default_rng()
    return x + rng.normal()


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda x: x + random.random(), "random.random"),
        (lambda x: pick([x, 1]), "random.choice"),
        (lambda x: np.random.rand() + x, "numpy.random.rand"),
        (lambda x: np.random.normal(x, 1), "numpy.random.normal"),
        (lambda x: np.random.sample() + x, "numpy.random.sample"),
        (lambda x: np.random.default_rng().normal() + x, "numpy.random.default_rng() without"),
        (lambda x: np.random.default_rng(None).normal() + x, "numpy.random.default_rng() without"),
        (lambda x: np.random.default_rng(seed=None).normal(), "numpy.random.default_rng() without"),
        (lambda x: np.random.RandomState().rand() + x, "numpy.random.RandomState() without"),
        (lambda x: random.Random().random() + x, "random.Random() without"),
        (lambda x: random.SystemRandom().random() + x, "random.SystemRandom"),
        (lambda x: secrets.token_bytes(4), "secrets.token_bytes"),
        (lambda x: secrets.choice([1, 2]), "random.SystemRandom"),
        (lambda x: str(uuid.uuid4()), "uuid.uuid4"),
        (lambda x: os.urandom(8), "os.urandom"),
        (lambda x: SHARED.normal() + x, "SHARED, a random generator"),
        (lambda x: time.time(), "the clock by time.time"),
        (lambda x: dt.datetime.now().timestamp(), "by dt.datetime.now"),  # noqa: DTZ005
        (lambda x: str(dt.date.today()), "by dt.date.today"),  # noqa: DTZ011
        (lambda x: time.localtime().tm_hour, "by time.localtime"),
        (import_inside, "numpy.random.rand"),
        (from_import_inside, "random.uniform, random.randint"),
        (through_a_helper, "random.random (in helper)"),
        (in_a_comprehension, "random.gauss"),
        (in_a_nested_function, "random.random"),
        (draws_by_default, "draws on rng, a random generator"),
        (optional_generator, "numpy.random.default_rng() without"),
        (functools.partial(lambda g, x: x + g.normal(), np.random.default_rng(1)), "argument 0"),
    ],
)
def test_chance_and_clocks_are_named(fn, name):
    said = of(fn)

    assert name in said
    assert said.startswith("map(")


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (np.random.default_rng(0).normal, "Generator, a random generator that elements share"),
        (random.Random(0).randrange, "Random, a random generator that elements share"),
        (np.random.permutation, "numpy.random.permutation"),
        (random.choice, "random.choice"),
        (uuid.uuid4, "uuid.uuid4"),
        (os.urandom, "os.urandom"),
        (functools.partial(np.random.normal, 1.0), "numpy.random.normal"),
        (functools.partial(SHARED.normal, 1.0), "a random generator that elements share"),
        (functools.partial(functools.partial(random.uniform, 1.0), 2.0), "random.uniform"),
    ],
)
def test_a_function_that_is_itself_chance_is_named(fn, name):
    assert name in of(fn)


class FakeTorch(types.ModuleType):
    """A module with the functions that are looked for."""

    class Generator:
        def manual_seed(self, _):
            return self

    def __init__(self):
        super().__init__("torch")
        self.rand, self.empty = (lambda *_, **__: 0), (lambda *_: 0)


@pytest.fixture
def torch(monkeypatch):
    """Return a `torch` that is loaded."""
    made = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def test_what_draws_on_the_generator_of_pytorch_is_named(torch):
    generator = torch.Generator()

    assert "torch.rand" in of(lambda x: torch.rand(1) + x)
    assert "torch.rand" in of(torch.rand)
    assert "torch.Tensor.uniform_" in of(lambda x: torch.empty(2).uniform_() + x)
    assert "generator, a random generator" in of(lambda x: torch.rand(1, generator=generator))


def test_what_is_seeded_by_its_element_is_no_chance_of_pytorch(torch):
    def seeded(x):
        torch.manual_seed(int(x))
        return torch.rand(1)

    def own(x):
        generator = torch.Generator().manual_seed(int(x))
        return torch.rand(1, generator=generator)

    assert of(seeded) == of(own) == of(lambda x: torch.empty(2) + x) == ""


def test_pytorch_is_looked_for_also_where_it_is_not_loaded():
    def draws(x):
        import torch

        return torch.rand(1) + x

    def draws_another_way(x):
        from torch import randint as draw

        return draw(0, x, (1,))

    def draws_nothing(x):
        import torch

        return torch.tensor(x)

    assert "torch" not in sys.modules
    assert "torch.rand" in of(draws)
    assert "torch.randint" in of(draws_another_way)
    assert of(draws_nothing) == ""


class Samples:
    def __init__(self, draw):
        self.transform = draw

    def __len__(self):
        return 3

    def __getitem__(self, number):
        return self.transform(number)


def test_the_dataset_that_is_given_to_from_torch_is_looked_into():
    (said,) = nondeterminism(Dataset.from_torch(Samples(helper)).node)

    assert said.startswith("from_torch(Samples) draws on random.random (in helper)")
    assert nondeterminism(Dataset.from_torch(Samples(abs)).node) == ()


def installed(cls):
    """Return *cls*, as a class of an installed package."""
    cls.__module__ = "pytest"
    return cls


@installed
class Subset:
    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return 3

    def __getitem__(self, number):
        return self.dataset[number]


def test_what_an_object_of_a_package_has_of_the_users_is_looked_into():
    (said,) = nondeterminism(Dataset.from_torch(Subset(Samples(helper))).node)

    assert "random.random" in said


def test_what_is_not_looked_into_is_noted_as_unjudged():
    transform = Subset([1, 2, 3])

    for made in (Dataset.from_torch(transform), Dataset.range(3).map(lambda i: transform[i])):
        (said,) = unjudged(made.node)
        assert "calls Subset of pytest, an installed package that is not looked into" in said
        assert said in made.visitation().notes
    assert unjudged(Dataset.range(3).map(np.sqrt).map(str).map(abs).node) == ()
    assert "calls importorskip of" in unjudged(Dataset.range(3).map(pytest.importorskip).node)[0]


class Augment:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.steps = [self.noise]

    def __call__(self, x):
        return self.noise(x)

    def noise(self, x):
        return x + self.rng.normal()

    @property
    def drawn(self):
        return random.random()

    def by_property(self, x):
        return self.drawn + x

    @staticmethod
    def of_nothing(x):
        return x + random.random()


@dataclass(slots=True)
class Slotted:
    rng: random.Random

    def jitter(self, x):
        return x + self.rng.random()


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (Augment(1), "self.rng (in Augment.noise)"),
        (Augment(1).noise, "self.rng"),
        (Augment(1).by_property, "random.random (in Augment.drawn)"),
        (Augment.of_nothing, "random.random"),
        (Slotted(random.Random(3)).jitter, "self.rng"),
        (lambda x: Augment(7)(x) + helper(x), "random.random (in helper)"),
    ],
)
def test_objects_and_their_methods_are_looked_into(fn, name):
    assert name in of(fn)


def test_functions_in_closures_containers_and_wrappers_are_looked_into():
    steps = [abs, {"last": (helper,)}]
    wrapped = functools.lru_cache(through_a_helper)

    def run(x):
        for step in steps:
            x = step(x)
        return x

    @functools.wraps(helper)
    def around(x, fn=helper):
        return fn(x)

    assert "random.random (in helper)" in of(run)
    assert "random.random (in helper)" in of(wrapped)
    assert "random.random" in of(around)
    assert "random.random (in helper)" in of(functools.partial(through_a_helper))


# --- what is exact ---


def draws_rightly(x, *, rng):
    return x + rng.normal()


def gives_on(x, *, rng):
    return optional_generator(x, rng=rng)


def falls_back(x, *, rng=None):
    return x + (rng or np.random.default_rng()).normal()


def seeds_itself(x):
    np.random.seed(int(x))
    return np.random.rand()


def seeds_the_other(x):
    random.seed(int(x))
    return random.random()


def own_generator(x):
    local = random.Random()
    local.seed(int(x))
    return local.random() + np.random.default_rng(int(x)).normal()


def measures(x):
    began = time.time()
    y = x + 1
    print(time.time() - began, time.perf_counter())
    return y


def hides_a_name(random, x=0):
    return random.random if x else random


def names_a_type(x):
    return isinstance(x, (np.random.Generator, random.Random, dt.datetime)) or x


def sleeps(x):
    time.sleep(0)
    return time.strftime("%Y", time.gmtime(int(x)))


@pytest.mark.parametrize(
    "fn",
    [
        draws_rightly, gives_on, falls_back, seeds_itself, seeds_the_other, own_generator, measures,
        hides_a_name, names_a_type, sleeps, abs, np.sqrt, str.upper,
        functools.partial(draws_rightly, rng=SHARED),
        lambda x: dt.datetime(2020, 1, 1) and x,  # noqa: DTZ001
        lambda x: dt.datetime.fromtimestamp(int(x)).year,  # noqa: DTZ006
        lambda x: str(uuid.uuid5(uuid.NAMESPACE_DNS, str(x))),
        lambda x: np.random.RandomState(int(x)).rand(),
        lambda x: np.random.Generator(np.random.Philox(key=int(x))).normal(),
        lambda x: os.path.join("a", str(x)),
    ],
)  # fmt: skip
def test_what_is_exact_is_left_in_peace(fn):
    assert of(fn) == ""


def test_the_clock_in_a_loop_that_waits_is_no_weakness():
    def busy(x):
        until = time.monotonic() + 0.001
        while time.monotonic() < until:
            pass
        return x

    assert of(busy) == ""


def test_an_object_that_was_made_already_is_not_made_again():
    class Made:
        def __init__(self):
            self.offset = random.random()

        def __call__(self, x):
            return x + self.offset

    assert of(Made()) == ""


# --- operators ---


def test_elements_that_overtake_each_other_are_a_weakness():
    ds = Dataset.range(9)
    nested = functools.partial(ds.interleave, Dataset.range, num_parallel_calls=2)

    assert "map(abs) lets elements overtake" in of(abs, num_parallel_calls=2, deterministic=False)
    assert "interleave" in nondeterminism(nested(deterministic=False).node)[0]
    assert of(abs, num_parallel_calls=1, deterministic=False) == ""
    assert of(abs, deterministic=False) == ""
    assert of(abs, num_parallel_calls=2) == ""
    assert nondeterminism(nested(cycle_length=1, deterministic=False).node) == ()
    assert nondeterminism(nested().node) == ()


class Images:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return self.flipped(i)

    def flipped(self, i):
        return i if random.random() < 0.5 else -i


def test_sources_are_looked_into_and_told_another_remedy():
    def rows():
        yield from range(random.randint(1, 3))

    assert (
        "from_sequence(Images) draws on random.random (in Images.flipped)"
        in (nondeterminism(Dataset.from_sequence(Images()).node)[0])
    )
    assert (
        "seeded by the element's number" in nondeterminism(Dataset.from_sequence(Images()).node)[0]
    )
    assert "random.randint" in nondeterminism(Dataset.from_generator(rows).node)[0]
    assert nondeterminism(Dataset.from_generator(lambda: range(3)).node) == ()


def test_datasets_inside_functions_are_looked_into():
    inner = Dataset.range(3).map(helper)

    (said,) = nondeterminism(Dataset.range(2).flat_map(lambda n: inner.take(n)).node)

    assert said.startswith("map(helper) draws on random.random")


def test_each_kind_of_weakness_is_said_once_an_operator():
    def all_of_it(x):
        return random.random() + random.gauss(0, 1) + SHARED.normal() + time.time()

    said = nondeterminism(Dataset.range(3).filter(all_of_it).node)

    assert [sentence.split(" so that")[0] for sentence in said] == [
        "filter(all_of_it) draws on random.random, random.gauss,",
        "filter(all_of_it) draws on SHARED, a random generator that elements share,",
        "filter(all_of_it) reads the clock by time.time,",
    ]


# --- definitions ---


def test_a_definition_says_so_without_being_unpickled():
    ds = Dataset.range(3).map(helper).map(abs, num_parallel_calls=2, deterministic=False)

    read = Definition.from_bytes(encode(ds.node).to_bytes())

    assert read.nondeterministic == "; ".join(nondeterminism(ds.node))
    assert "random.random" in read.nondeterministic
    assert encode(Dataset.range(3).node).nondeterministic == ""


def test_a_fingerprint_does_not_know_of_it():
    ds = Dataset.range(3).map(helper)

    assert encode(ds.node).fingerprint == fingerprint(ds.node)


def test_no_function_is_called_to_find_out():
    called = []

    class Loud:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            called.append(i)

        @property
        def noisy(self):
            called.append("noisy")

        def __getattr__(self, name):
            called.append(name)
            raise AttributeError(name)

    loud = Loud()
    called.clear()
    nondeterminism(
        Dataset.from_sequence(loud).map(lambda x: loud.noisy or loud.missing.rand(x)).node
    )

    assert called == []
