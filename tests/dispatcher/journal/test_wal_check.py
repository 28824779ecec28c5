"""What a write-ahead log holds behind its last whole transaction."""

import shutil

import pytest

from penstock.errors import JournalError
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.journal import wal_check
from penstock_dispatcher.journal.store import Store
from penstock_dispatcher.work_dir.folder_key import KEY
from tests.dispatcher.journal.random_facts import RandomFacts, copied, loaded, written


@pytest.mark.slow
def test_a_log_cut_at_any_byte_gives_a_prefix_with_all_that_was_acknowledged(file, tmp_path):
    world = RandomFacts(3)
    with Store(file, power=False) as store:
        store.load()
        lengths, sizes = [0], [0]
        seen = [copied(world.state)]
        log = file.with_name("journal.db-wal")
        while len(lengths) < 40:
            if facts := world.step():
                written(store, facts, world.state.length)
                lengths.append(world.state.length)
                sizes.append(log.stat().st_size)
                seen.append(copied(world.state))
        main, data = file.read_bytes(), log.read_bytes()
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(file.with_name(KEY), again)
    cuts = {*range(0, len(data), 3989), *sizes, *(s - 1 for s in sizes[1:]), *range(0, 60, 7)}

    for cut in sorted(cuts):
        rubbish = (b"", b"\x00" * 5000, bytes(range(256)) * 33)[cut % 3 if cut >= 32 else 0]
        if rubbish:  # it must not continue the log by chance
            rubbish = bytes([data[cut] ^ 0xFF if cut < len(data) else 1]) + rubbish
        (again / "journal.db").write_bytes(main)
        (again / "journal.db-wal").write_bytes(data[:cut] + rubbish)
        state = loaded(again / "journal.db")

        acknowledged = max(n for n, size in zip(lengths, sizes, strict=True) if size <= cut)
        assert state.length == acknowledged
        assert state == seen[lengths.index(acknowledged)]


def test_a_log_whose_older_round_shows_behind_the_newer_is_whole(file):
    log = file.with_name("journal.db-wal")
    with Store(file, power=False) as store:
        for length in range(1, 3000):
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 50)], length)
        assert wal_check.inspect(log).nbytes == 0
        assert 0 < wal_check.inspect(log).at < log.stat().st_size


def test_a_dispatcher_that_is_killed_in_two_transactions_one_after_another_starts(file):
    log = file.with_name("journal.db-wal")
    with Store(file, power=False) as store:
        written(store, [DatasetRegistered("d1", (), "")], 1)
        main = file.read_bytes()
        written(store, [DatasetRegistered("d2", (), "x" * 50_000)], 2)
        first = log.read_bytes()
    page, header = wal_check.HEADER.unpack_from(first)[2], wal_check.FRAME.size

    file.write_bytes(main)
    log.write_bytes(first[: -page - header])  # the last page of the first transaction is missing
    with Store(file, power=False) as store:
        assert store.load().state.length == 1
        old = log.read_bytes()
        written(store, [DatasetRegistered("d2", (), "")], 2)
        second, stop = log.read_bytes(), wal_check.inspect(log).at - page
    file.write_bytes(main)
    log.write_bytes(second[:stop] + old[stop:])  # of the second one, too

    assert loaded(file).length == 1


def test_a_bad_byte_before_acknowledged_transactions_stops_the_start_with_the_place(file):
    log = file.with_name("journal.db-wal")
    store = Store(file, power=False)
    sizes = []
    for length in range(1, 6):
        written(store, [DatasetRegistered(f"d{length}", (), "")], length)
        sizes.append(log.stat().st_size)
    main, data = file.read_bytes(), bytearray(log.read_bytes())
    store.close()
    for place in (sizes[1] + 500, sizes[1] + 9, sizes[1] + 2, sizes[1] + 20, 9):
        file.write_bytes(main)
        broken = data.copy()
        broken[place] ^= 0x40
        log.write_bytes(broken)

        at = sizes[1] if place > 9 else 0
        with pytest.raises(JournalError, match=rf"damaged at byte {at}: .*truncate -s {at} "):
            Store(file, power=False)
        assert log.read_bytes() == broken

    file.write_bytes(main)
    log.write_bytes(data[: sizes[1]])
    assert loaded(file).length == 2


def killed_behind(file, length, writes):
    """Return what is loaded after a life that made so many *writes*, and was killed."""
    log = file.with_name("journal.db-wal")
    with Store(file, power=False) as store:
        for number in range(length, length + writes):
            written(store, [DatasetRegistered(f"e{number}", (), "x")], number)
        left = file.read_bytes(), log.read_bytes()
    file.write_bytes(left[0])
    log.write_bytes(left[1])
    assert not wal_check.inspect(log).broken
    return loaded(file)


@pytest.mark.slow
def test_a_header_that_was_cut_short_as_the_log_began_anew_hides_nothing(file):
    log = file.with_name("journal.db-wal")
    with Store(file, power=False) as store:
        length, before = 0, b""
        while True:
            length += 1
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 40_000)], length)
            data = log.read_bytes()
            if before and data[: wal_check.HEADER.size] != before[: wal_check.HEADER.size]:
                break
            before, main = data, file.read_bytes()

    for cut in range(wal_check.HEADER.size):
        torn = data[:cut] + before[cut:]
        file.write_bytes(main)
        log.write_bytes(torn)

        tail = wal_check.inspect(log)

        assert not tail.broken
        assert tail.at == (0 if torn != before else len(before) - tail.nbytes)
        if cut in (13, 16, 20, 24, 31):
            assert loaded(file).length == length - 1
            file.write_bytes(main)
            log.write_bytes(torn)
            assert killed_behind(file, length, writes=3).length == length + 2
    for place in (9, 12, 16, 18, 22, 25, 30):
        broken = bytearray(before)
        broken[place] ^= 0x40
        log.write_bytes(broken)
        assert wal_check.inspect(log).broken
