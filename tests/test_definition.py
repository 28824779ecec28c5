"""Definitions travel: what is in them, what happens where something is missing."""

import collections
import functools
import json
import logging
import operator
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass, replace

import cloudpickle
import msgspec
import numpy as np
import pytest

from penstock import Dataset, graph
from penstock.definition import Definition, encode
from penstock.engine.root import DatasetIterator
from penstock.errors import DefinitionError
from penstock.fingerprint import fingerprint
from penstock.graph import Node, walk
from penstock.ops.map import Map
from penstock.ops.range import Range
from penstock.travel import pickling
from penstock.travel.origin import is_local
from penstock.travel.stages import operators

VOCABULARY = {f"word{i}": i for i in range(10)}


@dataclass(frozen=True, eq=False)
class Held(Node):
    """A source of a test's own: what stands in its fields."""

    op = "held"
    data: object = graph.arrays(default=None)
    extra: object = None

    cardinality = 0

    def open(self, context, state):
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Pair(Node):
    op = "pair"
    left: Node
    right: Node

    cardinality = 0

    def open(self, context, state):
        raise NotImplementedError


def travelled(node):
    """Return *node* as it arrives elsewhere, from its bytes."""
    return Definition.from_bytes(encode(node).to_bytes()).decode()


def elements(node):
    with DatasetIterator(node) as it:
        return list(it)


# --- the plain part ---


def test_a_pipeline_gives_the_same_elements_after_its_travel():
    scale = np.arange(10)
    ds = Dataset.range(10).map(lambda x: x * scale[x]).map(operator.neg).batch(4)

    assert [x.tolist() for x in elements(travelled(ds.node))] == [
        [0, -1, -4, -9],
        [-16, -25, -36, -49],
        [-64, -81],
    ]


def test_the_plain_part_says_what_the_pipeline_is_without_unpickling():
    ds = Dataset.range(0, 20, 2).map(lambda x: x).batch(3)
    definition = Definition.from_bytes(encode(ds.node).to_bytes())
    broken = replace(definition, pickled=replace(definition.pickled, stream=b"no pickle"))

    read = Definition.from_bytes(broken.to_bytes())

    assert [(stage.op, stage.inputs) for stage in read.stages] == [
        ("range", ()),
        ("map", (0,)),
        ("batch", (1,)),
    ]
    assert read.stages[0].params == {"start": 0, "stop": 20, "step": 2}
    assert read.stages[1].label == "map(<lambda>)"
    assert read.cardinality == 4
    assert [stream.units for stream in read.streams] == [10]
    assert read.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert read.numpy == np.__version__


def test_encoding_is_repeatable_and_calls_no_user_function():
    def forbidden(x):
        raise AssertionError

    definition = encode(Dataset.range(3).map(forbidden).node)

    assert definition.fingerprint == encode(definition.decode()).fingerprint


def test_every_operator_is_known_by_one_name():
    known = operators()

    assert known["map"] is Map
    assert known["range"] is Range
    assert all(kind.op == name for name, kind in known.items())


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -1,
        1 << 80,
        1.5,
        float("inf"),
        "text",
        "lone \udcff surrogate",
        b"\0bytes",
        (1, (2.0, "x"), ()),
        {"a": (1, 2), "$": "node"},
        3 + 4j,
        np.float32(1.5),
        range(3),
    ],
)
def test_a_parameter_keeps_its_value_and_type(value):
    arrived = travelled(Held(extra=value)).extra

    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.int16).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(10)[::-2],
        np.empty((0, 3), np.float32),
        np.array(7.5),
        np.array([True, False]),
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([1, 2], dtype=">i4"),
        np.array(["a", "", "ü\0", "\udcff"], dtype=object),
        np.array([[b"\xff\0", b""]], dtype=object),
        np.empty((0,), object),
    ],
)
def test_an_array_arrives_as_it_was(array):
    arrived = travelled(Held(data=(array,))).data[0]

    assert arrived.dtype == array.dtype
    assert arrived.shape == array.shape
    assert arrived.tolist() == array.tolist()
    assert arrived.flags.aligned


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024


def test_a_nest_of_arrays_keeps_its_shape():
    node = Held(data={"p": Point(np.arange(3), np.arange(3.0)), "t": (np.arange(2),)})

    data = travelled(node).data

    assert list(data) == ["p", "t"]
    assert type(data["p"]).__name__ == "Point"
    assert data["p"].y.tolist() == [0.0, 1.0, 2.0]


def test_large_data_are_kept_once_however_often_they_are_used():
    large = np.arange(100_000)
    ds = Dataset.range(3).map(lambda x: large[x]).map(lambda x: large[x] + 1)

    definition = encode(Pair(ds.node, Held(data=(large, large.copy()))))

    assert [data.nbytes for data in definition.contents.values()] == [large.nbytes]
    assert large.nbytes < definition.nbytes < large.nbytes + 20_000


def test_an_array_that_could_be_written_to_still_can_be():
    buffer = np.zeros(5000)
    frozen = np.zeros(5000)
    frozen.setflags(write=False)

    node = travelled(Dataset.range(3).map(lambda x: (buffer, frozen)).node)
    fn = node.fn
    inside = dict(zip(fn.__code__.co_freevars, fn.__closure__, strict=True))

    assert inside["buffer"].cell_contents.flags.writeable
    assert not inside["frozen"].cell_contents.flags.writeable


def test_a_node_that_is_read_twice_stays_one_node():
    shared = Dataset.range(5).map(abs).node

    definition = encode(Pair(shared, shared))
    arrived = definition.decode()

    assert [stage.op for stage in definition.stages] == ["range", "map", "pair"]
    assert arrived.left is arrived.right
    assert len(list(walk(arrived))) == 5


def test_functions_share_afterwards_what_they_shared_before():
    calls = []
    ds = Dataset.range(3).map(lambda x: calls.append(x)).map(lambda x: len(calls))

    second = travelled(ds.node)
    second.upstream.fn(7)

    assert second.fn(0) == 1
    assert calls == []


def test_a_definition_that_is_none_is_refused():
    with pytest.raises(DefinitionError, match="3 bytes are no definition"):
        Definition.from_bytes(b"abc")


def test_a_definition_of_another_version_is_refused():
    data = replace(encode(Dataset.range(3).node), version=2).to_bytes()

    with pytest.raises(DefinitionError, match="version 2; this Penstock reads version 1"):
        Definition.from_bytes(data)


def test_a_dataset_in_a_closure_travels_with_its_function():
    inner = Dataset.range(4)

    node = travelled(Dataset.range(2).map(lambda x: np.array(list(inner)) + x).node)

    assert [x.tolist() for x in elements(node)] == [[0, 1, 2, 3], [1, 2, 3, 4]]


def rows(x):
    return Dataset.range(x % 3)


def rows_of(x):
    return np.arange(x % 6)


def pairs(x):
    return x, np.arange(x % 4)


def build(op, *inputs, **params):
    return operators()[op](*(getattr(each, "node", each) for each in inputs), **params)


NUMBERS = Dataset.range(20)
EVERY_OPERATOR = {
    "range": build("range", 3, 9, 2),
    "from_tensors": build("from_tensors", {"a": np.arange(3), "b": ("x", 1.5, b"y")}),
    "from_tensor_slices": build(
        "from_tensor_slices", (np.arange(6).reshape(3, 2), ["a", "b", "c"])
    ),
    "from_sequence": build("from_sequence", [(1, "a"), (2, "b")], size=2),
    "from_generator": build("from_generator", range, (3, 7)),
    "list_files": build("list_files", (__file__,), shuffle=False, seed=None),
    "text_lines": build("text_lines", (__file__,), errors="replace"),
    "map": build("map", NUMBERS, abs),
    "filter": build("filter", NUMBERS, lambda x: x % 2 == 0),
    "flat_map": build("flat_map", NUMBERS, rows),
    "interleave": build("interleave", NUMBERS, rows, cycle=3, length=2),
    "batch": build("batch", NUMBERS, 3, drop_remainder=False),
    "padded_batch": build(
        "padded_batch",
        NUMBERS.map(pairs),
        4,
        shapes=((), (None,)),
        values=(None, -1),
        drop_remainder=False,
    ),
    "unbatch": build("unbatch", NUMBERS.batch(3)),
    "rebatch": build("rebatch", NUMBERS.batch(3), 7, drop_remainder=False),
    "window": build(
        "flat_map",
        build("window", NUMBERS, 3, shift=2, stride=1, drop_remainder=False),
        lambda w: w,
    ),
    "shuffle": build("shuffle", NUMBERS, 8, seed=5, reshuffle=True),
    "repeat": build("repeat", NUMBERS, 2),
    "take": build("take", NUMBERS, 5),
    "skip": build("skip", NUMBERS, 5),
    "shard": build("shard", NUMBERS, 3, 1),
    "enumerate": build("enumerate", NUMBERS, 7),
    "zip": build("zip", (NUMBERS.node, NUMBERS.map(abs).node)),
    "concatenate": build("concatenate", NUMBERS, NUMBERS.map(abs)),
    "cache": build("cache", NUMBERS),
    "counter": build("take", build("counter", 3, 2), 5),
    "random": build("take", build("random", 5, rerandomize=True), 5),
    "fixed_length_records": build(
        "fixed_length_records", (os.devnull,), 4, header=0, footer=0, compression=""
    ),
    "csv": build(
        "csv",
        (os.devnull,),
        names=("a", "b"),
        columns=(("b", "str", None),),
        selected=("b",),
        delimiter=";",
        quotes=True,
        na_value="-",
        header=False,
        compression="",
    ),
    "tfrecords": build("tfrecords", (os.devnull,), compression=""),
    "scan": build("scan", NUMBERS, np.int64(0), lambda total, x: (total + x, total)),
    "ignore_errors": build("ignore_errors", NUMBERS.map(lambda x: 12 // x), max_errors=1, log=None),
    "take_while": build("take_while", NUMBERS, lambda x: x < 12),
    "assert_cardinality": build("assert_cardinality", NUMBERS, 20),
    "with_options": build(
        "with_options",
        NUMBERS,
        deterministic=True,
        threads=2,
        autotune=True,
        cpu_budget=2,
        ram_budget=1000,
        external_state_policy="ignore",
    ),
    "group_by_window": build(
        "group_by_window", NUMBERS, lambda x: x % 3, lambda key, w: w.batch(4), size=4
    ),
    "bucket_by_sequence_length": build(
        "bucket_by_sequence_length",
        NUMBERS.map(rows_of),
        (2, 4),
        (2, 3, 4),
        shapes=None,
        values=None,
        to_boundary=False,
        no_padding=False,
        drop_remainder=False,
        length_func=len,
    ),
    "unique": build("unique", NUMBERS.map(lambda x: x % 3)),
    "choose_from_datasets": build(
        "choose_from_datasets",
        NUMBERS.map(lambda x: x % 2),
        (NUMBERS.node, NUMBERS.map(abs).node),
        stop=False,
    ),
    "sample_from_datasets": build(
        "sample_from_datasets",
        (NUMBERS.node, NUMBERS.map(abs).node),
        weights=(0.5, 0.5),
        seed=3,
        stop=False,
        rerandomize=False,
    ),
    "prefetch": build("prefetch", NUMBERS, 2),
}


@pytest.mark.parametrize("op", [op for op in operators() if op != "window elements"])
def test_every_operator_travels(op):
    node = EVERY_OPERATOR[op]

    arrived = travelled(node)

    assert [below.label for _, below in walk(arrived)] == [below.label for _, below in walk(node)]
    assert fingerprint(arrived) == fingerprint(node)
    assert repr(elements(arrived)) == repr(elements(node))


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


def test_a_dataset_that_exists_only_in_a_run_cannot_be_sent():
    inside = build("window elements", [1, 2])

    with pytest.raises(DefinitionError, match="flatten it there, as in window"):
        encode(Dataset(inside).map(abs).node)
    with pytest.raises(DefinitionError, match="of closure variable 'held': .*flatten it there"):
        encode(closing_over(Dataset(inside)))


def closing_over(held):
    return Dataset.range(3).map(lambda x: held).node


def test_what_nests_too_deeply_is_an_error_of_one_line():
    deep = None
    for _ in range(5000):
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


class Lazy:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def table(self):
        return [self.n] * 2

    def __call__(self, x):
        return self.table[0] + x


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


# --- whose modules are whose ---


@pytest.mark.parametrize("name", ["json", "os.path", "numpy", "numpy.linalg", "sys", "pytest"])
def test_modules_of_python_and_of_installed_distributions_are_installed(name):
    __import__(name)

    assert not is_local(name)


@pytest.mark.parametrize("name", ["penstock", "penstock.graph", "penstock_cluster"])
def test_penstock_is_installed_however_it_is_installed(name):
    assert not is_local(name)


def test_a_test_module_and_the_script_are_local():
    assert is_local(__name__)
    assert is_local("__main__")


def test_nothing_stays_registered_with_cloudpickle():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        encode(Dataset.range(3).map(calls_with_vocabulary).node)

        assert cloudpickle.list_registry_pickle_by_value() == {__name__}
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def calls_with_vocabulary(x):
    return VOCABULARY[x]


def test_only_what_must_be_installed_is_listed():
    definition = encode(Dataset.range(3).map(lambda x: (np.sin(x), json.dumps(1), msgspec)).node)

    assert definition.modules == ("msgspec", "numpy")


# --- what is missing where it arrives ---


def test_another_python_is_refused_by_name():
    definition = replace(encode(Dataset.range(3).map(lambda x: x).node), python="3.99")

    with pytest.raises(DefinitionError, match=r"made with Python 3\.99 and this process runs"):
        definition.decode()


def test_another_numpy_is_refused_by_name():
    definition = replace(encode(Dataset.range(3).map(lambda x: x).node), numpy="99.1")

    with pytest.raises(DefinitionError, match=r"made with NumPy 99\.1 and this process has"):
        definition.decode()


def test_plain_pipelines_go_between_any_versions():
    definition = replace(encode(Dataset.range(3).batch(2).node), python="3.99", numpy="99.1")

    assert definition.decode().cardinality == 2


def test_an_unknown_operator_is_refused_by_name():
    definition = encode(Dataset.range(3).node)
    stage = replace(definition.stages[0], op="levitate")

    with pytest.raises(DefinitionError, match="does not know the operator 'levitate'"):
        replace(definition, stages=(stage,)).decode()


# --- between processes ---

PROJECT = {
    "train.py": """
        import sys
        import shapes.areas as areas
        import shapes.deep.inner
        from shapes import SCALE
        import tables
        from penstock import Dataset
        from penstock.definition import encode

        class Reader:
            def __init__(self, k): self.k = k
            def __call__(self, x): return x + self.k

        def lazily(x):
            from shapes.lazy import late
            import shapes.lazier as lazier
            return late(x) + lazier.VALUE

        def decode(x):
            return areas.square(x) * SCALE + shapes.deep.inner.one() + tables.TABLE[1]

        ds = Dataset.range(4).map(decode).map(Reader(1)).map(lazily).map(tables.identity)
        sys.stdout.buffer.write(encode(ds.node).to_bytes())
        """,
    "tables.py": """
        import threading
        LOCK = threading.Lock()  # nothing that is used uses it
        TABLE = {1: 1000}
        def identity(x): return x
        """,
    "shapes/__init__.py": "SCALE = 10",
    "shapes/areas.py": """
        from . import _power
        def square(x):
            from ._power import power as again
            from . import _power as also
            return _power.power(x, 2) if again is also.power else None
        """,
    "shapes/_power.py": """
        def power(x, n): return x if n == 1 else x * power(x, n - 1)
        """,
    "shapes/deep/__init__.py": "",
    "shapes/deep/inner.py": "def one(): return 1",
    "shapes/lazy.py": """
        from .areas import square
        def late(x): return square(x)
        """,
    "shapes/lazier.py": "VALUE = 0.5",
}
DECODE = """
    import sys
    from penstock.definition import Definition
    from penstock.engine.root import DatasetIterator
    from penstock.definition import encode
    from penstock.fingerprint import explain_difference
    definition = Definition.from_bytes(sys.stdin.buffer.read())
    node = definition.decode()
    with DatasetIterator(node) as it:
        print([float(x) for x in it])
    assert not explain_difference(definition, node), explain_difference(definition, node)
    again = encode(node).decode()
    assert repr(list(DatasetIterator(again))) == repr(list(DatasetIterator(node)))
    """


@pytest.fixture
def run(tmp_path):
    """Run Python code or a script in a folder of its own, away from this one."""

    def run(code, *, folder="elsewhere", data=b"", fails=False):
        (tmp_path / folder).mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHASHSEED")}
        script = [code] if code.endswith(".py") else ["-c", textwrap.dedent(code)]
        done = subprocess.run(
            [sys.executable, *script],
            cwd=tmp_path / folder,
            env={**env, "PYTHONPATH": os.pathsep.join(PENSTOCK)},
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert bool(done.returncode) == fails, done.stderr.decode()
        return done.stderr.decode() if fails else done.stdout

    return run


PENSTOCK = [os.path.dirname(os.path.dirname(sys.modules["penstock"].__file__))]


def write(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))


def test_local_modules_travel_with_the_functions_that_use_them(tmp_path, run):
    write(tmp_path / "project", PROJECT)

    data = run("train.py", folder="project")
    printed = run(DECODE, data=data)

    expected = [(10 * x * x + 1 + 1000 + 1) ** 2 + 0.5 for x in range(4)]
    assert json.loads(printed) == expected


def test_a_module_that_a_worker_lacks_is_named_with_the_remedy(tmp_path, run):
    # What lies in a folder named site-packages counts as installed.
    write(
        tmp_path,
        {
            "site-packages/elaborate.py": "def f(x): return x",
            "project/train.py": """
                import sys
                sys.path.append("../site-packages")
                import elaborate
                from penstock import Dataset
                from penstock.definition import encode
                sys.stdout.buffer.write(encode(Dataset.range(3).map(elaborate.f).node).to_bytes())
                """,
        },
    )

    data = run("train.py", folder="project")
    message = run(DECODE, data=data, fails=True)

    assert Definition.from_bytes(data).modules == ("elaborate",)
    assert "map(f) needs the module 'elaborate', which cannot be imported here" in message
    assert "install it on the workers, or keep it beside the script" in message


def test_a_function_that_another_version_lacks_is_named(tmp_path, run):
    write(
        tmp_path,
        {
            "site-packages/elaborate.py": "def f(x): return x",
            "elsewhere/elaborate.py": "",
            "project/train.py": """
                import sys
                sys.path.append("../site-packages")
                import elaborate
                from penstock import Dataset
                from penstock.definition import encode
                sys.stdout.buffer.write(encode(Dataset.range(3).map(elaborate.f).node).to_bytes())
                """,
        },
    )

    message = run(DECODE, data=run("train.py", folder="project"), fails=True)

    assert "map(f) cannot be loaded here" in message
    assert "elaborate" in message
    assert "install the same" in message


def test_distributions_in_any_folder_and_editable_ones_are_installed(tmp_path, run):
    write(
        tmp_path,
        {
            "vendor/solid.py": "",
            "vendor/solid-1.0.dist-info/METADATA": "Name: solid\nVersion: 1.0\n",
            "vendor/solid-1.0.dist-info/RECORD": "solid.py,,\n",
            "vendor/mine.py": "",
            "sources/src/fluid/__init__.py": "",
            "sources/src/fluid/inner.py": "",
            "sources/scripts.py": "",
            "vendor/fluid-1.0.dist-info/METADATA": "Name: fluid\nVersion: 1.0\n",
            "vendor/fluid-1.0.dist-info/RECORD": "fluid.pth,,\nfluid-1.0.dist-info/RECORD,,\n",
            "vendor/fluid-1.0.dist-info/direct_url.json": '{"dir_info": {"editable": true}}',
            "vendor/fluid.pth": f"{tmp_path / 'sources' / 'src'}\n",
        },
    )
    code = """
        import site, sys
        sys.path += ["../vendor", "../sources"]
        site.addsitedir("../vendor")
        import colorsys, solid, mine, fluid.inner, scripts
        from penstock.travel.origin import is_local
        names = ["solid", "mine", "fluid", "fluid.inner", "scripts", "colorsys", "penstock"]
        print([name for name in names if is_local(name)])
        """

    printed = run(code)

    assert printed.decode().strip() == "['mine', 'scripts']"


def test_a_module_used_whole_is_named_when_it_cannot_travel(tmp_path, run):
    write(
        tmp_path / "project",
        {
            "tables.py": PROJECT["tables.py"],
            "train.py": """
                import tables
                from penstock import Dataset
                from penstock.definition import encode
                def pick(x, name): return getattr(tables, name)
                encode(Dataset.range(3).map(pick).node)
                """,
        },
    )

    message = run("train.py", folder="project", fails=True)

    assert "map(pick): attribute 'LOCK' of global 'tables' holds a _thread.lock" in message


def test_many_threads_may_encode_at_once():
    nodes = [Dataset.range(3).map(calls_with_vocabulary).map(Lazy(i)).node for i in range(8)]
    made = {}

    def work(i):
        made[i] = [encode(nodes[i]).fingerprint for _ in range(10)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [len(set(made[i])) for i in range(8)] == [1] * 8
    assert cloudpickle.list_registry_pickle_by_value() == set()


def test_pickling_nothing_gives_nothing():
    pickled, contents = pickling.dump([])

    assert pickling.load(pickled, contents) == []
