"""What is wrong with an order is told, and what is right is not."""

from dataclasses import dataclass, field

from chaos.mesh import Role
from chaos.ordered import check
from chaos.plan import Life, Ordered, Plan

ONE = {"job": "chaos", "iteration": 1, "readers": [{}]}


@dataclass
class Wrote:
    """A reader that wrote these ids down."""

    ids: list
    role: Role = field(default_factory=Role)

    class process:  # noqa: N801  as of a reader
        name = "reader 0"

    def records(self):
        return [("t", n) for n in self.ids]


def judged(readers, consumers=None, pipeline="range", joined=None):
    plan = Plan(0, (Life(),), pipeline=pipeline, sharing=Ordered(consumers))
    stats = {"iterations": [ONE | {"readers": [{}] * (joined or len(readers))}]}
    return list(check(plan, readers, stats, 0))


def consumer(index, ids):
    return Wrote(ids, Role(consumer=index))


def test_elements_in_turn_are_right():
    assert not judged([Wrote([0, 1, 2, 3])])
    assert not judged([consumer(0, [0, 2, 4]), consumer(1, [1, 3])], consumers=2)


def test_an_element_behind_a_later_one_is_wrong():
    assert judged([Wrote([0, 2, 1])]) == ["reader 0 took 1 behind 2"]
    assert judged([Wrote([0, 1, 1])]) == ["reader 0 took 1 behind 1"]


def test_an_element_of_another_consumer_is_wrong():
    found = judged([consumer(0, [0, 2, 3]), consumer(1, [1])], consumers=2)

    assert found == ["consumer 0 of 2 took [3]"]


def test_what_comes_again_to_one_that_was_away_may_be_late():
    assert not judged([Wrote([0, 2, 1])], joined=2)
    assert not judged([Wrote([0, 2]), Wrote([1, 3, 2])])


def test_the_order_of_an_interleave_is_not_that_of_ids():
    assert not judged([Wrote([0, 20, 1])], pipeline="interleave")
