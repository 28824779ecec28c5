"""What is done to a mesh leaves somebody there who can end the pass."""

from types import SimpleNamespace

from chaos.acts import others_stay, start_behind
from chaos.mesh import Reader


def test_the_last_that_stays_does_not_leave_although_others_are_still_on_their_way_out():
    stays, goes = Reader(None, None, None), Reader(None, None, None, leaving=True)

    assert others_stay(goes, [stays, goes])
    assert not others_stay(stays, [stays, goes])
    assert not others_stay(stays, [stays])


def test_a_worker_is_waited_for_while_it_leaves_and_not_when_another_took_its_place():
    started = []
    process = SimpleNamespace(alive=True, pid=1)
    worker = SimpleNamespace(process=process, start=lambda: started.append(process.pid))

    assert start_behind(worker, 1) is not None
    process.pid = 2
    assert start_behind(worker, 1) is None
    assert started == []
    process.alive = False
    assert start_behind(worker, 1) is None
    assert started == [2]
