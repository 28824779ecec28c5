"""What TensorFlow's clients know by numbers outlasts a restart."""

import pytest

from penstock.errors import UnknownIteration
from penstock.protocol.tensorflow import JobRequest, ProcessingMode
from penstock_dispatcher.tensorflow.client_store import NAME, clients_at

ASKED = JobRequest("train", ProcessingMode(1), "job", None, cached=False, target_workers=1)


def entered(clients):
    return clients.enter(clients.job(ASKED, "x"), 1, 0.0)


def tasks(clients, client):
    return clients.tasks(client, [("w:1", 1)], lambda *_: False, 0.0).tasks


def test_a_client_is_known_in_the_next_life(tmp_path):
    first = clients_at(str(tmp_path), 30.0)
    client = entered(first)
    before = tasks(first, client)

    assert tasks(clients_at(str(tmp_path), 30.0), client) == before


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path):
    client = entered(clients_at(str(tmp_path), 30.0))
    file = tmp_path / NAME
    file.write_bytes(file.read_bytes() + b'["ClientMa')

    assert tasks(clients_at(str(tmp_path), 30.0), client)


def test_a_line_that_is_damaged_is_said_and_left_out(tmp_path, caplog):
    client = entered(clients_at(str(tmp_path), 30.0))
    file = tmp_path / NAME
    file.write_bytes(b"nonsense\n" + file.read_bytes())

    assert tasks(clients_at(str(tmp_path), 30.0), client)
    assert "line 1 is no fact" in caplog.text


def test_what_is_not_needed_is_not_written_again(tmp_path):
    first = clients_at(str(tmp_path), 30.0)
    for _ in range(50):
        first.release(entered(first))
    kept = entered(first)
    file = tmp_path / NAME
    before = file.stat().st_size

    assert tasks(clients_at(str(tmp_path), 30.0), kept)
    assert file.stat().st_size < before / 10


def test_without_a_folder_nothing_is_kept():
    client = entered(clients_at(None, 30.0))

    with pytest.raises(UnknownIteration):
        tasks(clients_at(None, 30.0), client)


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path, caplog):
    clients = clients_at(str(tmp_path / "nowhere"), 30.0)
    client = entered(clients)

    assert tasks(clients, client)
    assert caplog.text.count("cannot be written") == 1
