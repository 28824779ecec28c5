"""Links do what they say, seen through plain sockets."""

import socket
import threading
import time

import pytest

from chaos.proxy import Flow, Links, Way

SOON = 10.0


@pytest.fixture
def links():
    with Links() as links:
        yield links


@pytest.fixture
def echo():
    """A server that says back what it hears, until its caller has nothing more to say."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer):
        with peer:
            try:
                while data := peer.recv(4096):
                    peer.sendall(data)
            except OSError:
                pass

    def accept():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(SOON)


def call(link):
    host, _, port = link.address.rpartition(":")
    peer = socket.create_connection((host, int(port)), SOON)
    peer.settimeout(SOON)
    return peer


def says_nothing(peer, seconds=0.1):
    peer.settimeout(seconds)
    try:
        return peer.recv(1) is None
    except TimeoutError:
        return True
    finally:
        peer.settimeout(SOON)


def test_held_bytes_come_later_in_order(links, echo):
    link = links.link(echo)
    link.set(Flow.HOLD)

    with call(link) as peer:
        peer.sendall(b"held")
        assert says_nothing(peer)
        link.heal()

        assert peer.recv(4) == b"held"


def test_dropped_bytes_are_gone_and_their_connection_with_them(links, echo):
    link = links.link(echo)

    with call(link) as robbed:
        robbed.sendall(b"a")
        robbed.recv(1)
        link.set(Flow.DROP)
        robbed.sendall(b"b")
        assert says_nothing(robbed)
        link.heal()

        with pytest.raises(ConnectionResetError):
            robbed.recv(1)
    with call(link) as fresh:
        fresh.sendall(b"c")
        assert fresh.recv(1) == b"c"


def test_one_direction_can_be_dropped_alone(links, echo):
    link = links.link(echo)

    with call(link) as peer:
        link.set(Flow.DROP, (Way.DOWN,))
        peer.sendall(b"heard there")

        assert says_nothing(peer)
        assert link.passed == len(b"heard there")


def test_delayed_bytes_come_late_and_in_order(links, echo):
    link = links.link(echo, jitter=0.02)
    link.set(Flow.DELAY)

    with call(link) as peer:
        got = b""
        for i in range(5):
            peer.sendall(bytes([i]))
        while len(got) < 5:
            got += peer.recv(5)

        assert got == bytes(range(5))


def test_a_reset_is_felt_at_once_and_new_connections_are_welcome(links, echo):
    link = links.link(echo)

    with call(link) as peer:
        peer.sendall(b"x")
        peer.recv(1)
        link.reset()

        with pytest.raises(ConnectionResetError):
            peer.recv(1)
    with call(link) as fresh:
        fresh.sendall(b"y")
        assert fresh.recv(1) == b"y"


def test_half_closed_means_an_end_one_way_and_life_the_other(links, echo):
    link = links.link(echo)

    with call(link) as peer:
        peer.sendall(b"x")
        peer.recv(1)
        link.half_close(Way.DOWN)

        assert peer.recv(1) == b""
        passed = link.passed
        peer.sendall(b"still heard")
        _until(lambda: link.passed > passed)


def test_nobody_listens_while_a_link_refuses_and_the_port_stays(links, echo):
    link = links.link(echo)
    address = link.address
    link.refuse()

    with pytest.raises(ConnectionRefusedError):
        call(link)
    link.accept()
    link.accept()

    assert link.address == address
    with call(link) as peer:
        peer.sendall(b"z")
        assert peer.recv(1) == b"z"


def test_a_link_to_nobody_resets_who_calls(links):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()
    link = links.link(nobody)

    with pytest.raises(ConnectionResetError), call(link) as peer:
        peer.recv(1)


def test_links_end_with_their_thread(echo):
    before = threading.active_count()
    with Links() as links:
        link = links.link(echo)
        link.set(Flow.HOLD)
        peer = call(link)
        peer.sendall(b"never")
        _until(lambda: link.connections == 1)

    with peer, pytest.raises(OSError):
        peer.recv(1)
    with pytest.raises(OSError):
        call(link)
    _until(lambda: threading.active_count() <= before)


def _until(true):
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_connections_made_together_come_in_another_order(links):
    with socket.create_server(("127.0.0.1", 0), backlog=20) as listener:
        listener.settimeout(SOON)
        link = links.link(listener.getsockname(), seed=1)
        link.reorder(0.3)
        peers = [call(link) for _ in range(12)]
        for number, peer in enumerate(peers):
            peer.sendall(bytes([number]))

        came = []
        for _ in peers:
            with listener.accept()[0] as accepted:
                came += accepted.recv(1)
        for peer in peers:
            peer.close()

    assert sorted(came) == list(range(12)) != came


def test_connections_come_at_once_again_through_a_healed_link(links, echo):
    link = links.link(echo)
    link.reorder(60.0)
    link.heal()

    with call(link) as peer:
        peer.sendall(b"x")
        assert peer.recv(1) == b"x"
