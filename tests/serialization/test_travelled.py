"""Modules, classes and objects of a user's project as the process of a worker finds them."""

import ast
import os
import subprocess
import sys
import textwrap

import pytest

from penstock.definition import decode, encode
from penstock.protocol.definition import Definition
from penstock.serialization import pickling
from tests.sent_definitions import closing_over, elements

pytestmark = pytest.mark.xdist_group("travelled")  # they share processes

PROJECT = {
    "own/__init__.py": "",
    "own/kinds.py": """
        import abc, collections, dataclasses, enum, functools, pickle, typing, weakref

        class Kind(enum.Enum):
            CAT = (1, "cat")
            TOM = (1, "cat")
            def __init__(self, number, text): self.text = text

        class Letter(bytes, enum.Enum):
            A = (65, "first")
            def __new__(cls, code, place):
                letter = bytes.__new__(cls, [code])
                letter._value_ = code
                letter.place = place
                return letter

        @dataclasses.dataclass(slots=True)
        class Slotted:
            x: int
            __secret: int = 2
            def secret(self): return self.__secret

        T = typing.TypeVar("T")
        UserId = typing.NewType("UserId", int)

        @dataclasses.dataclass
        class Box(typing.Generic[T]):
            held: T
            @dataclasses.dataclass
            class Lid:
                colour: str = "red"

        Pair = collections.namedtuple("Pair", "a b", defaults=[2])
        class Example(typing.NamedTuple):
            number: int
            text: str = "none"
            def doubled(self): return self._replace(number=2 * self.number)
        class Held(typing.NamedTuple, typing.Generic[T]):
            held: T
        class Options(typing.TypedDict, total=False):
            name: str

        class Plugin:
            known = {}
            key = None
            def __init_subclass__(cls):
                if cls.key in Plugin.known: raise ValueError("defined twice")
                Plugin.known[cls.key] = cls

        class Resize(Plugin):
            key = "resize"

        class Model(type):
            made = []
            def __new__(mcs, name, bases, names):
                mcs.made.append(names["table"])
                return super().__new__(mcs, name, bases, names)

        class Row(metaclass=Model):
            table = "rows"

        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...

        class Square: pass
        Shape.register(Square)

        class Missing:
            def __reduce__(self): return "MISSING"
        MISSING = Missing()

        class Node:
            def __init__(self):
                self.child = Square()
                self.ref, self.gone = weakref.ref(self.child), weakref.ref(Square())
                self.by_key = weakref.WeakKeyDictionary({self.child: 1})
                self.by_value = weakref.WeakValueDictionary({"child": self.child})
        NODE = Node()

        class OnlyPickled:
            def __init__(self): self.parts = [Part(), Kind.CAT]
            def total(self): return scaled(2)
        class Part:
            def __getstate__(self): return {"whole": OnlyPickled}
        SCALE = 10
        def scaled(x): return x * SCALE
        class Large:
            table = bytes(1 << 20)
        class NeedsAbsent:
            import wave as absent
        """,
    "own/state.py": """
        COUNT = 0
        def count():
            global COUNT
            COUNT += 1
        def counted(): return COUNT
        """,
    "own/dispatching.py": """
        import functools

        @functools.singledispatch
        def shown(value): return "other"
        @shown.register
        def _(value: int): return f"int {shown('x')}"
        @shown.register(list)
        def _(value): return [shown(item) for item in value]

        class Formatter:
            @functools.singledispatchmethod
            def show(self, value): return "other"
            @show.register
            def _(self, value: int): return "int"

        @functools.cache
        def tripled(x): return 3 * x
        """,
    "own/script.py": """
        import concurrent.futures, importlib, multiprocessing, pickle, sys
        from . import dispatching, kinds, state
        from penstock import Dataset
        from penstock.definition import encode
        from penstock.protocol.definition import Definition
        import msgspec

        class InScript:
            pass
        def helper(x): return type(x).__name__
        def again(value): return pickle.loads(pickle.dumps(value))

        def enums(_):
            kind = kinds.Kind.CAT
            return (kind.text, kinds.Kind.TOM is kind, again(kind) is kind,
                    kinds.Letter.A.place, kinds.Letter(65) is again(kinds.Letter.A))
        def dataclasses(_):
            one = kinds.Slotted(1)
            return (again(one) == one, hasattr(one, "__dict__"), one.secret(),
                    again(kinds.Box[int](3)) == kinds.Box(3), again(kinds.Box.Lid()).colour)
        def named_tuples(_):
            one = again(kinds.Example(1))
            return (one == (1, "none"), type(one) is kinds.Example, again(one.doubled()).number,
                    again(kinds.Held[int](3)).held, again(kinds.Pair(1)) == (1, 2),
                    type(again(kinds.Pair(1))) is kinds.Pair, kinds.Example._fields)
        def typed_dicts(_):
            return kinds.Options(name="a"), sorted(kinds.Options.__optional_keys__)
        def registries(_):
            return (kinds.Plugin.known == {"resize": kinds.Resize}, kinds.Model.made,
                    type(kinds.Row).__name__, issubclass(kinds.Square, kinds.Shape))
        def singletons(_):
            return again(kinds.MISSING) is kinds.MISSING, kinds.UserId.__name__, str(kinds.T)
        def weak(_):
            node = kinds.NODE
            return (node.ref() is node.child, node.gone(), node.by_key[node.child],
                    node.by_value["child"] is node.child)
        def dispatched(_):
            shown = dispatching.shown([1, "x"])
            return shown, dispatching.Formatter().show(1), dispatching.tripled(2)
        def shared_globals(_):
            import own.state as also
            state.count()
            found = importlib.import_module("own.state")
            return state.counted(), state.COUNT, also.COUNT, found.COUNT
        def unpickled(_):
            made = pickle.loads(PICKLED)
            also = importlib.import_module("own.kinds")
            return type(made) is also.OnlyPickled, made.total(), made.parts[1].text
        def unpickled_of_script(_):
            return type(pickle.loads(PICKLED_SCRIPT)) is sys.modules["__main__"].InScript
        def too_large(_):
            return kinds.scaled(1) and getattr(sys.modules["own.kinds"], "Large")
        def absent(_):
            return kinds.scaled(1) and pickle.loads(PICKLED_ABSENT)
        def in_a_process(_):
            fork = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(1, fork) as pool:
                return tuple(pool.map(helper, [kinds.Slotted(1), InScript()]))

        PICKLED, PICKLED_SCRIPT = pickle.dumps(kinds.OnlyPickled()), pickle.dumps(InScript())
        PICKLED_ABSENT = pickle.dumps(kinds.NeedsAbsent())
        FUNCTIONS = [enums, dataclasses, named_tuples, typed_dicts,
                     registries, singletons, weak, dispatched, shared_globals,
                     unpickled, unpickled_of_script, too_large, absent, in_a_process]
        def told(fn): return lambda x: repr(fn(x))
        if __name__ in ("__main__", "__mp_main__"):
            made = {}
            for fn in FUNCTIONS:
                made[fn.__name__] = encode(Dataset.range(1).map(told(fn)).node).to_bytes()
            sys.stdout.buffer.write(msgspec.msgpack.encode(made))
        """,
    "ranks.py": """
        import multiprocessing, pickle, sys
        import msgspec
        from penstock import Dataset
        from penstock.definition import encode

        class Sample: pass
        def same(_):
            made = pickle.loads(PICKLED)
            return repr((type(made) is Sample, type(pickle.loads(pickle.dumps(made))) is Sample))
        PICKLED = pickle.dumps(Sample())
        def rank(pickled):
            global PICKLED
            PICKLED = pickled  # by the script that started this rank: a __main__.Sample
            made = {"same": encode(Dataset.range(1).map(same).node).to_bytes()}
            sys.stdout.buffer.write(msgspec.msgpack.encode(made))
        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            process = context.Process(target=rank, args=(PICKLED,))
            process.start()
            process.join()
        """,
}
WORKER = """
    import sys
    import msgspec
    from penstock import Dataset  # loads the operators
    from penstock.definition import decode, encode
    from penstock.dataset.iterator import DatasetIterator
    from penstock.protocol.definition import Definition
    from penstock.serialization.fingerprint import fingerprint

    if "--without-wave" in sys.argv:
        sys.modules["wave"] = None
    made = {}
    for name, data in msgspec.msgpack.decode(sys.stdin.buffer.read()).items():
        definition = Definition.from_bytes(data)
        try:
            node = decode(definition, adopt=True)
            if "--again" in sys.argv:  # as a runner sends functions to processes of its own
                again = encode(node).to_bytes()
                node = decode(Definition.from_bytes(again), adopt=True)
            same = definition.fingerprint == fingerprint(node)
            with DatasetIterator(node) as it:
                made[name] = [next(it), same]
        except Exception as exc:
            made[name] = [repr(str(exc)), True]
    print(repr(made))
    """


def write(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return folder


def run(folder, *command, data=b"", path=()):
    folder.mkdir(exist_ok=True)
    sources = os.path.dirname(os.path.dirname(sys.modules["penstock"].__file__))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**env, "PYTHONPATH": os.pathsep.join([sources, *map(str, path)])},
        input=data,
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert not done.returncode, done.stderr.decode()
    return done


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return write(tmp_path_factory.mktemp("project"), PROJECT)


@pytest.fixture(scope="module")
def sent(project):
    return run(project, "-m", "own.script").stdout


def results_of(sent, folder, *options, **kwargs):
    done = run(folder, "-c", textwrap.dedent(WORKER), *options, data=sent, **kwargs)
    made = ast.literal_eval(done.stdout.decode())
    return {name: (ast.literal_eval(text), same) for name, (text, same) in made.items()}


@pytest.fixture(scope="module", params=["sent once", "sent on from there"])
def result(request, sent, tmp_path_factory):
    """What each function of the project returns in a process that has nothing of the project."""
    options = [] if request.param == "sent once" else ["--again"]
    made = results_of(sent, tmp_path_factory.mktemp("worker"), "--without-wave", *options)

    def one(name):
        got, same = made[name]
        assert same, "its fingerprint is another one there"
        return got

    return one


@pytest.mark.slow
def test_members_of_an_enumeration_are_single_and_have_their_attributes(result):
    assert result("enums") == ("cat", True, True, "first", True)


def test_data_classes_have_slots_and_can_be_pickled_also_those_inside_others(result):
    assert result("dataclasses") == (True, False, 2, True, "red")


def test_named_tuples_and_typed_dicts_are_what_they_were(result):
    shown = (True, True, 2, 3, True, True, ("number", "text"))
    assert result("named_tuples") == shown
    assert result("typed_dicts") == ({"name": "a"}, ["name"])


@pytest.mark.slow
def test_what_classes_did_as_they_were_defined_is_done_once(result):
    assert result("registries") == (True, ["rows"], "Model", True)


def test_what_is_one_object_in_a_module_is_one_object_there(result):
    assert result("singletons") == (True, "UserId", "~T")


def test_weak_references_refer_to_what_travelled_with_them(result):
    assert result("weak") == (True, None, 1, True)


def test_functions_that_dispatch_by_type_dispatch_there(result):
    assert result("dispatched") == (["int other", "other"], "int", 6)


def test_functions_of_one_module_share_its_globals_with_whoever_imports_it(result):
    assert result("shared_globals") == (1, 1, 1, 1)


def test_a_class_that_no_function_names_is_found_as_it_is_unpickled(result):
    assert result("unpickled") == (True, 20, "cat")
    assert result("unpickled_of_script") is True


def test_what_did_not_travel_is_named_by_whoever_asks_for_it(result):
    assert "module 'own.kinds' has no attribute 'Large' here: the pipeline" in result("too_large")


def test_a_class_that_cannot_be_loaded_is_an_error_for_those_who_need_it(result):
    message = result("absent")

    assert "'NeedsAbsent' of module 'own.kinds' came with the pipeline and cannot be" in message
    assert "wave" in message


def test_a_process_that_a_function_starts_finds_its_modules(result):
    assert result("in_a_process") == ("Slotted", "InScript")


@pytest.mark.slow
def test_what_unpickled_objects_do_is_a_part_of_the_fingerprint_and_what_is_beside_is_not(tmp_path):
    script = """
        import pickle
        from penstock import Dataset
        from penstock.serialization.fingerprint import fingerprint
        class Sample:
            def decode(self): return 1
        class Model:
            layers = 1
        def read(file): return pickle.load(file).decode()
        def plain(file): return read.__name__
        print(fingerprint(Dataset.range(1).map(read).node))
        """
    edits = ["", "return 1", "layers = 1", ".decode()"]
    made = {}
    for edit in edits:
        edited = (
            script.replace(edit, edit.replace("1", "2").replace(".decode", "")) if edit else script
        )
        write(tmp_path, {"train.py": edited})
        made[edit] = run(tmp_path, "train.py").stdout

    assert made["return 1"] != made[""] == made["layers = 1"] != made[".decode()"]


@pytest.mark.slow
def test_a_module_of_the_worker_gives_way_and_is_named(sent, tmp_path):
    other = PROJECT["own/state.py"].replace("COUNT += 1", "COUNT += 7")
    write(tmp_path, PROJECT | {"own/state.py": other})

    done = run(tmp_path, "-c", textwrap.dedent(WORKER), "--without-wave", data=sent)

    assert "'shared_globals': ['(1, 1, 1, 1)', True]" in done.stdout.decode()
    warned = [line for line in done.stderr.decode().splitlines() if "differs from" in line]
    assert warned
    assert all(
        f"'own.state' came with the pipeline and differs from {tmp_path}" in line for line in warned
    )
    assert "own.kinds" not in "".join(warned)


def test_a_process_that_has_the_modules_keeps_its_own(tmp_path):
    node = decode(Definition.from_bytes(encode(closing_over(ModuleName)).to_bytes()))

    assert elements is sys.modules["tests.sent_definitions"].elements
    assert sys.modules[__name__].ModuleName is ModuleName
    assert "__penstock__" not in vars(sys.modules[__name__])
    assert node is not None


class ModuleName:
    pass


def test_names_that_older_definitions_have_in_their_pickles_can_be_imported():
    assert {"_module", "_new_cached", "_set_cached"} <= vars(pickling).keys()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_rank_that_multiprocessing_starts_sends_functions_and_classes_of_its_script(
    method, project, tmp_path
):
    sent = run(project, "ranks.py", method).stdout

    assert results_of(sent, tmp_path / "worker") == {"same": ((True, True), True)}
