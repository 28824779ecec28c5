"""What code does is read alike from the bytecode of every version of Python."""

import dis

import pytest

from penstock.serialization.bytecode import OPS, Op, Step, steps

G, L, A = Op.READ_GLOBAL, Op.READ_LOCAL, Op.READ_ATTRIBUTE


def done(fn):
    return [(step.op, step.value) for step in steps(fn.__code__) if step.op is not Op.OTHER]


def imports(x):
    import os.path as p
    from json import dumps, loads

    return p, dumps, loads


def takes_over(x):
    global changed
    changed = x
    first = second = x
    return first, second


def outer():
    count = 0

    def inner(step):
        nonlocal count
        count += step
        return count

    return inner


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x, [(L, "x")]),
        (lambda x, y: x + y, [(L, "x"), (L, "y")]),
        (lambda x, y: x.real + y.imag, [(L, "x"), (A, "real"), (L, "y"), (A, "imag")]),
        (lambda: a.b.c, [(G, "a"), (A, "b"), (A, "c")]),  # noqa: F821
        (lambda: f(), [(G, "f"), (Op.CALL, 0)]),  # noqa: F821
        (lambda f: f(), [(L, "f"), (Op.CALL, 0)]),
        (lambda x: x.f(), [(L, "x"), (A, "f"), (Op.CALL, 0)]),
        (lambda x: x.f(None), [(L, "x"), (A, "f"), (Op.CONSTANT, None), (Op.CALL, 1)]),
        (lambda x: x.f(seed=None), [(L, "x"), (A, "f"), (Op.CONSTANT, None), (Op.CALL, 1)]),
        (lambda x: x.f(7, k=x), [(L, "x"), (A, "f"), (Op.CONSTANT, 7), (L, "x"), (Op.CALL, 2)]),
        (lambda x: x + 300, [(L, "x"), (Op.CONSTANT, 300)]),
        (
            outer(),
            [
                (Op.READ_OUTER, "count"), (L, "step"),
                (Op.ASSIGN_OUTER, "count"), (Op.READ_OUTER, "count"),
            ],
        ),
        (
            takes_over,
            [
                (L, "x"), (Op.ASSIGN_GLOBAL, "changed"), (L, "x"),
                (Op.ASSIGN_LOCAL, "first"), (Op.ASSIGN_LOCAL, "second"),
                (L, "first"), (L, "second"),
            ],
        ),
        (
            imports,
            [
                (Op.CONSTANT, 0), (Op.CONSTANT, None), (Op.IMPORT, "os.path"),
                (Op.IMPORT_FROM, "path"), (Op.ASSIGN_LOCAL, "p"),
                (Op.CONSTANT, 0), (Op.CONSTANT, ("dumps", "loads")), (Op.IMPORT, "json"),
                (Op.IMPORT_FROM, "dumps"), (Op.ASSIGN_LOCAL, "dumps"),
                (Op.IMPORT_FROM, "loads"), (Op.ASSIGN_LOCAL, "loads"),
                (L, "p"), (L, "dumps"), (L, "loads"),
            ],
        ),
    ],
)  # fmt: skip
def test_code_reads_alike_in_every_version(fn, expected):
    assert done(fn) == expected


def test_the_names_in_a_class_body_are_globals_or_outer_variables():
    def made(size):
        class Made:
            twice = size + base  # noqa: F821

        return Made

    (body,) = [const for const in made.__code__.co_consts if hasattr(const, "co_code")]

    assert Step(Op.READ_OUTER, "size") in steps(body)
    assert Step(Op.READ_GLOBAL, "base") in steps(body)
    assert Step(Op.ASSIGN_LOCAL, "twice") in steps(body)


def test_a_name_that_stands_behind_many_others_is_found():
    names = [f"name{i}" for i in range(300)]
    code = compile(f"lambda: [{', '.join(names)}]", "many", "eval").co_consts[0]

    assert [step.value for step in steps(code) if step.op is G] == names


SAY_NOTHING = {
    "DELETE_ATTR", "DELETE_FAST", "DELETE_NAME", "LOAD_CLOSURE", "LOAD_FAST_AND_CLEAR",
    "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD",
    "MAKE_CELL", "STORE_ATTR", "STORE_FAST_MAYBE_NULL",
}  # fmt: skip
"""Of what a name stands for. Of `super` nothing is known."""


def test_all_ways_of_this_version_to_read_or_assign_a_variable_are_known():
    of_names = {*dis.haslocal, *dis.hasfree, *dis.hasname}
    ways = {name for name, code in dis.opmap.items() if code in of_names}

    unknown = {name for name in ways - OPS.keys() if not name.startswith("INSTRUMENTED_")}
    assert unknown == SAY_NOTHING & ways
