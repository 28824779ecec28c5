"""Modules of a user: which travel, which must be installed, what happens where one is missing."""

import json
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import cloudpickle
import msgspec
import numpy as np
import pyarrow as pa
import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import decode, encode
from penstock.errors import DefinitionError
from penstock.protocol.definition import Definition
from penstock.serialization import pickling
from penstock.serialization.modules import is_local
from tests.sent_definitions import VOCABULARY, Lazy

# --- whose modules are whose ---


@pytest.mark.parametrize("name", ["json", "os.path", "numpy", "numpy.linalg", "sys", "pytest"])
def test_modules_of_python_and_of_installed_distributions_are_installed(name):
    __import__(name)

    assert not is_local(name)


@pytest.mark.parametrize("name", ["penstock", "penstock.graph.node", "penstock_cluster"])
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
        decode(definition)


def test_another_numpy_is_refused_by_name():
    definition = replace(encode(Dataset.range(3).map(lambda x: x).node), numpy="99.1")

    with pytest.raises(DefinitionError, match=r"made with NumPy 99\.1 and this process has"):
        decode(definition)


def test_plain_pipelines_go_between_any_versions():
    definition = replace(encode(Dataset.range(3).batch(2).node), python="3.99", numpy="99.1")

    assert decode(definition).cardinality == 2


def test_an_unknown_operator_is_refused_by_name():
    definition = encode(Dataset.range(3).node)
    stage = replace(definition.stages[0], op="levitate")

    with pytest.raises(DefinitionError, match="does not know the operator 'levitate'"):
        decode(replace(definition, stages=(stage,)))


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
    from penstock import Dataset  # loads the operators
    from penstock.protocol.definition import Definition
    from penstock.dataset.iterator import DatasetIterator
    from penstock.definition import decode, encode
    from penstock.serialization.fingerprint import explain_difference
    definition = Definition.from_bytes(sys.stdin.buffer.read())
    node = decode(definition)
    with DatasetIterator(node) as it:
        print([float(x) for x in it])
    assert not explain_difference(definition, node), explain_difference(definition, node)
    again = decode(encode(node))
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


@pytest.mark.slow
def test_local_modules_travel_with_the_functions_that_use_them(tmp_path, run):
    write(tmp_path / "project", PROJECT)

    data = run("train.py", folder="project")
    printed = run(DECODE, data=data)

    expected = [(10 * x * x + 1 + 1000 + 1) ** 2 + 0.5 for x in range(4)]
    assert json.loads(printed) == expected


@pytest.mark.slow
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


@pytest.mark.slow
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
        from penstock.serialization.modules import is_local
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


def test_a_function_of_a_compiled_package_travels_by_its_name():
    table = pa.table({"a": [1, 2, 3]})

    def column(i):
        return table["a"][int(i)].as_py()

    pickled, contents = pickling.dump([("map(column)", column)])
    (loaded,) = pickling.load(pickled, contents)

    assert loaded(1) == 2
    assert not is_local(type(table.__reduce_ex__(5)[0]).__module__)
