"""Operators that make datasets, in which any other operator may be, and their models."""

from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from pipelines.elementwise import ELEMENTWISE
from pipelines.regrouping import REGROUPING
from pipelines.stage import Stage, sizes, threads

PLAIN = st.one_of(*ELEMENTWISE.values(), *REGROUPING.values())


def interleaved(xs, inner, cycle, block):
    """As tf.data: an empty slot takes the next input in its turn; an ended one ends its turn."""
    inputs = iter(xs)
    slots: list[list[int] | None] = [None] * cycle
    out: list[int] = []
    turn = 0
    more = True
    while more or any(s is not None for s in slots):
        slot = turn % cycle
        turn += 1
        if slots[slot] is None and more:
            x = next(inputs, None)
            more = x is not None
            slots[slot] = None if x is None else inner(x)
        if slots[slot] is None:
            continue
        given = slots[slot][:block]
        out += given
        rest = slots[slot][block:]
        # It shows its end only when it is asked for more than it has.
        slots[slot] = rest if len(given) == block else None
    return out


@st.composite
def inside(draw):
    """Draw what makes a dataset of an element, and its model."""
    k, stage = draw(st.integers(1, 7)), draw(st.none() | PLAIN)
    if stage is None:
        return f"%{k}", lambda x: Dataset.range(x % k), lambda x: list(range(x % k))
    return (
        f"%{k}.{stage}",
        lambda x: stage.apply(Dataset.range(x % k)),
        lambda x: stage.model(list(range(x % k))),
    )


def known(xs, model):
    """Return what is in the datasets of *xs*, by element; None if one of them is unknown."""
    found = {x: model(x) for x in xs}
    return None if None in found.values() else found


@st.composite
def flat(draw):
    name, make, inner = draw(inside())

    def model(xs):
        found = known(xs, inner)
        return None if found is None else [y for x in xs for y in found[x]]

    return Stage(f"flat_map({name})", lambda d: d.flat_map(make), model)


@st.composite
def woven(draw):
    (name, make, inner), cycle, length = draw(inside()), draw(sizes), draw(sizes)
    calls = draw(threads)

    def model(xs):
        found = known(xs, inner)
        return None if found is None else interleaved(xs, found.get, cycle, length)

    return Stage(
        f"interleave({name}, {cycle}, {length}, {calls})",
        lambda d: d.interleave(make, cycle, length, calls),
        model,
    )


NESTING = {"flat_map": flat(), "interleave": woven()}
