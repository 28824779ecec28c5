"""Consumers that are killed come back where the others are, however many processes there were."""

import pytest

from chaos import trainer
from chaos.consumers import ConsumersAct
from chaos.mesh import Reader, Role
from chaos.plan import Back, Fault, Kind, Life, Rounds
from penstock.errors import Superseded


class FakeProcess:
    """A process that is there until it is killed, and keeps what it was told."""

    def __init__(self):
        self.alive, self.stopped, self.told = True, False, []

    def say(self, line):
        self.told.append(line)

    def kill(self):
        self.alive = False


class FakeMesh:
    """Starts consumers, which write down what a test has them write."""

    set_weights = None  # no fault here changes weights

    def __init__(self, folder):
        self.folder, self.readers = folder, []

    def add_reader(self, role):
        log = self.folder / f"reader {len(self.readers)}"
        self.readers.append(Reader(FakeProcess(), None, log, role=role))
        return self.readers[-1]


def writes(reader, kind, number):
    with reader.log.open("ab") as log:
        log.write(b"%c%010d\n" % (kind.encode(), number))


@pytest.fixture
def act(tmp_path):
    """Two consumers that have begun."""
    act = ConsumersAct(FakeMesh(tmp_path), Rounds(2))
    act.begin(Life(), None)
    for reader in act.mesh.readers:
        writes(reader, "b", 0)
        writes(reader, "r", 5)
    return act


def stands_still(reader, at):
    number = int(reader.process.told[-1].removeprefix("where "))
    writes(reader, "w", number)
    writes(reader, "a", at)


def test_who_is_killed_comes_back_at_the_round_that_the_other_is_at(act):
    one, two = act.mesh.readers
    undo = act.do(Fault(0.5, Kind.KILL_READER, 1))
    act.settle()
    assert undo() is None
    act.settle()
    stands_still(one, 6)
    act.settle()

    assert not two.process.alive
    assert one.process.told == ["where 1", "go 6"]
    assert [reader.role for reader in act.mesh.readers[2:]] == [Role(consumer=1, start=6)]


def test_who_was_to_be_superseded_by_a_process_that_was_killed_reads_on(act):
    first = act.mesh.readers[0]
    act.do(Fault(0.5, Kind.ADD_READER, 0))
    undo = act.do(Fault(0.5, Kind.KILL_READER, 0))
    assert undo() is None
    act.settle()

    assert [reader.process.alive for reader in act.mesh.readers] == [True, True, False]
    assert first.process.told == []
    assert act.newest[0] is first


def test_who_may_read_on_yet_stands_still_when_others_agree_on_a_round(act):
    first = act.mesh.readers[0]
    act.do(Fault(0.5, Kind.ADD_READER, 0))
    act.do(Fault(0.5, Kind.KILL_READER, 0))
    undo = act.do(Fault(0.5, Kind.KILL_READER, 1))
    undo()
    act.settle()
    stands_still(first, 9)
    act.settle()

    assert act.mesh.readers[-1].role == Role(consumer=1, start=9)


def test_who_was_superseded_by_a_process_that_was_killed_then_is_started_again(act):
    first, two = act.mesh.readers
    act.do(Fault(0.5, Kind.ADD_READER, 0))
    act.do(Fault(0.5, Kind.KILL_READER, 0, back=Back.AGREED))()
    writes(first, "u", 0)
    first.process.kill()
    act.settle()
    stands_still(two, 7)
    act.settle()

    assert act.mesh.readers[-1].role == Role(consumer=0, start=7)


def test_who_was_superseded_by_one_that_began_after_it_and_came_first_is_not_started_again(act):
    first, two = act.mesh.readers
    act.do(Fault(0.5, Kind.ADD_READER, 0))
    writes(act.mesh.readers[-1], "u", 0)
    act.mesh.readers[-1].process.kill()
    act.settle()
    stands_still(first, 7)
    stands_still(two, 7)
    act.settle()

    assert first.process.told[-1] == two.process.told[-1] == "go 7"
    assert len(act.mesh.readers) == 3
    assert act.newest[0] is first


class Taken:
    """What another process reads."""

    def __iter__(self):
        raise Superseded("another process reads job 'chaos' as consumer 0")


def test_a_loop_writes_down_that_its_place_was_taken_before_it_began(tmp_path):
    trainer.consume(Taken(), {}, trainer.Log(tmp_path / "log"))

    assert (tmp_path / "log").read_text() == "u0000000000\n"


def test_who_comes_back_does_so_at_no_round_that_its_process_before_took(act):
    one, two = act.mesh.readers
    writes(two, "r", 20)
    act.do(Fault(0.5, Kind.KILL_READER, 1))()
    act.settle()
    stands_still(one, 9)
    act.settle()

    assert one.process.told[-1] == "go 20"
    assert act.mesh.readers[-1].role == Role(consumer=1, start=20)
