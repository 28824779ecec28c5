import errno
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.storage import disk_cache
from penstock.storage.cache_folder import CacheFolder
from penstock.storage.counts import counted
from penstock.storage.disk_cache import HEADER, DiskCache
from penstock.storage.part_key import PartKey

FORK = multiprocessing.get_context("fork")
PIECE = 10_000
ROOM = 100 * (PIECE + HEADER)


def key_of(number, version="7.etag", url="s3://bucket/file"):
    return PartKey(url, version, number * PIECE, (number + 1) * PIECE)


def bytes_of(key):
    return f"{key}".encode().ljust(PIECE, b".")


class Store:
    """A store that notes in a file, for all processes, which pieces it sent."""

    def __init__(self, folder):
        self.log = folder / "downloads"
        self.log.touch()

    def fetch(self, key, before=lambda: None):
        def fetched():
            with self.log.open("a") as log:
                log.write(f"{key}\n")
            before()
            return bytes_of(key)

        return fetched

    def downloads(self):
        return self.log.read_text().splitlines()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def folder(tmp_path):
    return CacheFolder(str(tmp_path / "cache"), os.geteuid()).prepare()


@pytest.fixture
def cache(folder):
    return DiskCache(folder, ROOM)


def pieces(folder):
    return [p for p in folder.path.glob("??/*") if p.is_file()]


def test_a_piece_is_downloaded_once_and_then_read_from_disk(cache, store):
    before = counted()
    for _ in range(3):
        assert cache.get(key_of(0), store.fetch(key_of(0))) == bytes_of(key_of(0))
    assert len(store.downloads()) == 1
    assert counted().cache_hits - before.cache_hits == 2
    assert counted().cache_misses - before.cache_misses == 1


def test_versions_and_ranges_of_one_url_are_kept_apart(cache, store):
    keys = [key_of(0), key_of(0, version="7.other"), key_of(1), key_of(0, url="s3://bucket/else")]
    for _ in range(2):
        for key in keys:
            assert cache.get(key, store.fetch(key)) == bytes_of(key)
    assert len(store.downloads()) == len(keys)


def test_files_without_a_version_are_not_kept(cache, store, folder):
    for version in ("", "7."):
        key = key_of(0, version=version)
        for _ in range(2):
            assert cache.get(key, store.fetch(key)) == bytes_of(key)
    assert len(store.downloads()) == 4
    assert not pieces(folder)


def test_another_process_that_starts_later_finds_the_pieces(folder, store):
    keys = [key_of(i) for i in range(5)]
    in_process(read_all, folder, store, keys)
    in_process(read_all, folder, store, keys)
    assert len(store.downloads()) == len(keys)


def test_several_processes_and_threads_download_each_piece_once(folder, store):
    keys = [key_of(i) for i in range(20)]
    slow = lambda: time.sleep(0.002)  # noqa: E731
    readers = [
        FORK.Process(target=read_in_threads, args=(folder, store, keys, slow)) for _ in range(4)
    ]
    for one in readers:
        one.start()
    for one in readers:
        one.join(60)
    assert [one.exitcode for one in readers] == [0] * 4
    assert sorted(store.downloads()) == sorted(map(str, keys))


def test_a_killed_download_leaves_nothing_torn_and_the_next_reader_stores_the_piece(folder, store):
    key, (begun, told) = key_of(0), os.pipe()

    def hang():
        os.write(told, b"!")
        signal.pause()

    stuck = FORK.Process(target=read_all, args=(folder, store, [key], hang))
    stuck.start()
    os.read(begun, 1)
    stuck.kill()
    stuck.join(60)
    for _ in range(2):
        in_process(read_all, folder, store, [key])
    assert len(store.downloads()) == 2
    (piece,) = pieces(folder)
    assert piece.stat().st_size == HEADER + PIECE


def test_a_reader_downloads_itself_if_the_process_that_downloads_is_stopped(folder, store):
    key, (begun, told) = key_of(0), os.pipe()

    def hang():
        os.write(told, b"!")
        signal.pause()

    stuck = FORK.Process(target=read_all, args=(folder, store, [key], hang))
    stuck.start()
    os.read(begun, 1)
    hasty = DiskCache(folder, ROOM, within=0.1)
    assert hasty.get(key, store.fetch(key)) == bytes_of(key)
    stuck.kill()
    stuck.join(60)


def test_a_download_that_fails_lets_the_next_reader_try(cache, store, folder):
    def fail():
        raise ConnectionError("the store is gone")

    with pytest.raises(ConnectionError):
        cache.get(key_of(0), store.fetch(key_of(0), fail))
    assert not pieces(folder)
    assert cache.get(key_of(0), store.fetch(key_of(0))) == bytes_of(key_of(0))
    assert len(pieces(folder)) == 1


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "swapped"])
def test_a_damaged_piece_is_downloaded_again(cache, folder, store, damage, caplog):
    keys = key_of(0), key_of(1)
    for key in keys:
        cache.get(key, store.fetch(key))
    first, second = pieces(folder)
    data = first.read_bytes()
    changed = {
        "flipped": data[:-1] + b"!",
        "cut": data[:-1],
        "empty": b"",
        "swapped": second.read_bytes(),
    }
    first.write_bytes(changed[damage])
    later = DiskCache(folder, ROOM)
    for _ in range(2):
        for key in keys:
            assert later.get(key, store.fetch(key)) == bytes_of(key)
    assert len(store.downloads()) == 3
    assert "damaged" in caplog.text


def test_the_cache_stays_within_its_bytes_and_keeps_its_share_of_a_cycle(folder, store):
    cache = DiskCache(folder, 10 * (PIECE + HEADER))
    before = counted()
    for _ in range(3):
        for key in map(key_of, range(30)):
            assert cache.get(key, store.fetch(key)) == bytes_of(key)
            assert sum(p.stat().st_size for p in pieces(folder)) <= 10 * (PIECE + HEADER)
    assert len(store.downloads()) == 30 + 20 + 20
    assert counted().cache_evictions > before.cache_evictions
    assert folder.totals().held == sum(p.stat().st_size for p in pieces(folder))


@pytest.mark.parametrize("at", ["write", "fsync", "rename", "mkdir"])
def test_reads_continue_without_the_cache_when_the_disk_is_full(
    cache, folder, store, monkeypatch, caplog, at
):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    class Full:
        def __getattr__(self, name):
            return full if name == at else getattr(os, name)

    if at in ("rename", "mkdir"):
        monkeypatch.setattr(Path, at, full)
    elif at == "fsync":
        monkeypatch.setattr(disk_cache, "os", Full())
    else:
        monkeypatch.setattr(disk_cache, "_digest", full)
    with caplog.at_level(logging.WARNING):
        for key in map(key_of, range(5)):
            assert cache.get(key, store.fetch(key)) == bytes_of(key)
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    monkeypatch.undo()
    assert not pieces(folder)


def test_the_cache_leaves_a_part_of_the_disk_free(cache, folder, store, monkeypatch):
    for key in map(key_of, range(3)):
        cache.get(key, store.fetch(key))
    monkeypatch.setattr(disk_cache, "FREE_SHARE", 1.0)
    monkeypatch.setattr(disk_cache, "MOST_FREE", 1 << 60)
    assert cache.get(key_of(3), store.fetch(key_of(3))) == bytes_of(key_of(3))
    assert not pieces(folder)
    assert folder.totals().bound == 0


def test_the_limit_on_the_length_of_files_ends_no_read(folder, store):
    in_process(read_with_short_files, folder, store)
    assert not pieces(folder)


def test_an_index_that_is_damaged_is_made_anew(folder, store):
    in_process(read_all, folder, store, [key_of(0)])
    for file in folder.path.glob("index*"):
        file.write_bytes(b"no index" * 1000)
    in_process(read_all, folder, store, [key_of(0)])
    in_process(read_all, folder, store, [key_of(0)])
    assert len(store.downloads()) == 2


def test_files_that_the_index_does_not_know_are_removed_by_the_next_first_process(folder, store):
    in_process(read_all, folder, store, [key_of(0), key_of(1)])
    lost, kept = pieces(folder)
    strange = lost.with_name("f" * 40)
    lost.rename(strange)
    kept.with_name(kept.name + ".new").touch()
    in_process(read_all, folder, store, [key_of(0), key_of(1)])
    assert strange not in pieces(folder)
    assert len(pieces(folder)) == 2
    assert folder.totals().held == 2 * (PIECE + HEADER)


def test_a_fork_of_a_process_that_uses_the_cache_uses_it_too(cache, folder, store):
    cache.get(key_of(0), store.fetch(key_of(0)))
    child = FORK.Process(target=lambda: cache.get(key_of(1), store.fetch(key_of(1))))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    for number in (0, 1):
        cache.get(key_of(number), store.fetch(key_of(number)))
    assert len(store.downloads()) == 2


def test_a_piece_that_is_evicted_while_it_is_read_stays_readable(cache, folder, store):
    cache.get(key_of(0), store.fetch(key_of(0)))
    (piece,) = pieces(folder)
    with piece.open("rb") as file:
        file.read(1)
        piece.unlink()
        assert len(file.read()) == HEADER + PIECE - 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to another user")
def test_another_user_uses_the_folder_that_root_made_and_looks_at():
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as given:
        Path(given).chmod(0o711)
        folder = CacheFolder(given, 65534).prepare()
        for _ in range(2):
            in_process(read_as_nobody, folder)
            assert folder.totals().held == PIECE + HEADER
        assert {each.stat().st_uid for each in folder.path.rglob("*")} == {65534}


def in_process(function, *args):
    child = FORK.Process(target=function, args=args)
    child.start()
    child.join(60)
    assert child.exitcode == 0


def read_all(folder, store, keys, before=lambda: None):
    cache = DiskCache(folder, ROOM)
    for key in keys:
        assert cache.get(key, store.fetch(key, before)) == bytes_of(key)


def read_as_nobody(folder):
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    cache, key = DiskCache(folder, ROOM), key_of(0)
    for _ in range(2):
        assert cache.get(key, lambda: bytes_of(key)) == bytes_of(key)
    assert len(pieces(folder)) == 1


def read_in_threads(folder, store, keys, before):
    cache, ready = DiskCache(folder, ROOM), threading.Barrier(4)

    def read(number):
        ready.wait(60)
        for key in keys[number:] + keys[:number]:
            assert cache.get(key, store.fetch(key, before)) == bytes_of(key)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))


def read_with_short_files(folder, store):
    import resource

    read_all(folder, store, [])
    folder.open_index().close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (PIECE // 2, PIECE // 2))
    cache = DiskCache(folder, ROOM)
    for key in map(key_of, range(3)):
        assert cache.get(key, lambda key=key: bytes_of(key)) == bytes_of(key)
