"""What was dropped is closed by another thread."""

import threading

from penstock.runtime.interrupts import close_dropped, in_own_thread


def test_another_thread_closes_and_is_waited_for():
    closed_by = []

    close_dropped(lambda: closed_by.append((threading.get_ident(), in_own_thread())))

    ((thread, ours),) = closed_by
    assert thread != threading.get_ident()
    assert ours
    assert not in_own_thread()


def test_a_close_that_takes_long_is_not_waited_for_to_its_end():
    go_on, closed = threading.Event(), threading.Event()

    def close():
        go_on.wait()
        closed.set()

    close_dropped(close, seconds=0.01)
    assert not closed.is_set()

    go_on.set()
    assert closed.wait(10)


def test_a_thread_of_ours_waits_for_nobody():
    release, closed, left = threading.Event(), threading.Event(), threading.Event()

    def close():
        release.wait()
        closed.set()

    def ours():
        close_dropped(close, seconds=60)
        left.set()

    thread = threading.Thread(target=ours, name="penstock-test")
    thread.start()

    assert left.wait(10)
    release.set()
    assert closed.wait(10)
    thread.join()


def test_without_a_thread_to_be_had_nothing_is_raised(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    called = []

    close_dropped(lambda: called.append(1))

    assert not called
