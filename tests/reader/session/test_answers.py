"""What a session tells of a loop that waits, while its thread can tell nothing."""

import threading

from tests.reader.session.opened_sessions import far, session_of, wait_until


def told(mesh):
    """Return what the newest heartbeat says of the loop."""
    heartbeats = mesh.dispatcher.heartbeats
    return heartbeats[-1].loop if heartbeats else None


def test_heartbeats_tell_of_a_wait_that_goes_on_and_for_what(fake):
    with fake.FakeMesh(fake.frames(4, 5)) as mesh, iter(far(mesh)) as elements:
        mesh.withhold(1)
        loop = threading.Thread(target=lambda: list(elements))
        loop.start()
        wait_until(lambda: told(mesh) is not None and told(mesh).waiting > 0.3, 60)
        first = told(mesh)
        wait_until(lambda: told(mesh).waiting > first.waiting + 0.2, 60)
        newest, awaited = told(mesh), session_of(elements).awaited
        mesh.release(1)
        loop.join(60)

    assert newest.share == 1.0
    assert newest.waited > first.waited
    assert newest.waits_for == f"elements of 1 task of worker {mesh.dispatcher.address}" == awaited


def test_a_loop_that_has_what_it_asked_for_waits_for_nothing(fake):
    with fake.FakeMesh(fake.frames(4, 5)) as mesh, iter(far(mesh)) as elements:
        next(elements)
        wait_until(lambda: told(mesh) is not None and told(mesh).total, 60)

        assert (told(mesh).waiting, told(mesh).waits_for) == (0.0, "")


def test_a_slow_operator_of_the_training_process_is_named_and_no_worker(fake):
    inside, let_go = threading.Event(), threading.Event()

    def stuck(x):
        inside.set()
        let_go.wait(60)
        return x

    with fake.FakeMesh(fake.frames(4, 5)) as mesh, iter(far(mesh).map(stuck)) as elements:
        loop = threading.Thread(target=lambda: list(elements))
        loop.start()
        assert inside.wait(60)
        before = len(mesh.dispatcher.heartbeats)
        wait_until(lambda: len(mesh.dispatcher.heartbeats) > before + 1, 60)
        newest = told(mesh)
        let_go.set()
        loop.join(60)

    assert newest.waits_for.startswith("map(stuck) in the training process, in a call for ")
    assert newest.share > 0.5
