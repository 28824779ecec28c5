"""The journal's file: what was acknowledged is there, whatever happened to the end of it."""

import copy
import logging
import random
import sqlite3

import pytest

from penstock.errors import ConfigError, JournalError, StoreFull
from penstock.messages import (
    PROTOCOL,
    Codec,
    Holding,
    Mode,
    OpenRequest,
    Progress,
    ReaderBeat,
    SplitRequest,
    Versions,
    WorkerBeat,
)
from penstock.numbers import EngineState, Runs, Taken
from penstock.sharding import Stream
from penstock_dispatcher.core import Books, Core, Settings
from penstock_dispatcher.core.facts import DatasetRegistered, JobMade, JobParameters
from penstock_dispatcher.core.signals import Begin, OpenIteration, Register, Tick, Write
from penstock_dispatcher.journal import forms, wal
from penstock_dispatcher.journal.changes import Changes
from penstock_dispatcher.journal.lock import FolderLock
from penstock_dispatcher.journal.store import FORMAT, Store

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")
SETTINGS = Settings(worker_lease=5, reader_lease=30, idle=60, sweep_interval=10)


class World:
    """A core that hears random, sensible things; `step` returns the facts that follow."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.now, self.calls, self.lives = 0.0, 0, 0
        self.core = Core(Books(), SETTINGS, 0.0)
        self.begun = False

    @property
    def books(self):
        return self.core.books

    def step(self):
        if not self.begun:
            self.begun = True
            return self.hear(Begin(1000)) + self.register(0)
        self.now += 0.3
        action = self.rng.choice(
            [self.register, self.open, self.join, self.work, self.work, self.read, self.split]
            + [self.split, self.wait]
        )
        facts = action()
        self.core.push(self.now)
        return facts

    def hear(self, signal):
        return [e.fact for e in self.core.handle(signal, self.now) if isinstance(e, Write)]

    def register(self, number=None):
        self.calls += 1
        name = f"set{self.rng.randrange(5) if number is None else number}"
        return self.hear(
            Register(self.calls, VERSIONS, name, (Stream(("s",), 1000, None, 1, 1),), "")
        )

    def open(self):
        self.calls += 1
        job = self.rng.choice([None, "a", "b", "c"])
        repetition = self.rng.randrange(1, 4)
        mode = Mode.DYNAMIC if job != "c" else Mode.OFF
        request = OpenRequest(VERSIONS, "set0", mode, job, repetition, Codec.NONE)
        return self.hear(OpenIteration(self.calls, request, self.rng.getrandbits(63)))

    def join(self):
        open_ = [name for name, one in self.books.iterations.items() if not one.finished]
        if not open_:
            return self.open()
        token = f"t{self.rng.randrange(50)}"
        return self.hear(ReaderBeat(self.rng.choice(open_), token, None, 1))

    def work(self):
        worker = f"w:{self.rng.randrange(3)}"
        if worker not in self.books.workers or self.rng.random() < 0.03:
            self.lives += 1
            return self.hear(WorkerBeat(worker, self.lives, -1, versions=VERSIONS))
        known, progress = self.books.workers[worker], {}
        for task in known.tasks:
            one = self.books.task(task)
            number = max(one.state.number, one.taken.floor) + self.rng.randrange(5)
            positions = tuple(log.stop for log in one.logs)
            state = EngineState(number, positions, '{"k": [1]}')
            done = self.rng.random() < 0.4
            taken = Taken(number, Runs.of((number + 3, number + 5)) if not done else Runs())
            progress[task] = Progress(one.attempt, number, taken, state, done=done)
        as_of = self.books.as_of
        return self.hear(WorkerBeat(worker, known.incarnation, as_of, progress))

    def read(self):
        facts = []
        for name, one in list(self.books.iterations.items()):
            for token, reader in list(one.tokens.items()):
                if reader not in one.live:
                    continue
                holdings = {
                    task: Holding(t.attempt + (t.worker is None), t.taken, Runs())
                    for task, t in one.tasks.items()
                }
                leaving = self.rng.random() < 0.1
                beat = int(self.now * 100)
                facts += self.hear(ReaderBeat(name, token, reader, beat, holdings, leaving=leaving))
        return facts

    def split(self):
        running = [t for w in self.books.workers.values() for t in w.tasks]
        drawing = [t for t in running if self.books.task(t).logs]
        if not drawing:
            return self.work()
        name = self.rng.choice(drawing)
        task = self.books.task(name)
        life = self.books.workers[task.worker].incarnation
        at = task.logs[0].stop
        return self.hear(SplitRequest(task.worker, life, name, task.attempt, 0, at))

    def wait(self):
        facts = []
        for _ in range(self.rng.choice([1, 1, 1, 30, 300])):
            self.now += 0.25
            facts += self.hear(Tick())
        return facts


def copied(books):
    """Return books that later changes do not reach."""
    return copy.deepcopy(books)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "journal.db"


def written(store, facts, length):
    store.append(length, forms.encode_facts(map(forms.encode_fact, facts)))


def loaded(file):
    with Store(file, power=False) as store:
        return store.load().books


@pytest.mark.parametrize("seed", range(12))
def test_what_was_written_is_read_again_whatever_was_compacted_on_the_way(file, seed):
    world, rng = World(seed), random.Random(seed)
    store = Store(file, power=False)
    read = store.load()
    books, changes = read.books, read.changes
    world.core = Core(books, SETTINGS, 0.0)
    kinds = set()
    for _ in range(400):
        facts = world.step()
        for fact in facts:
            changes.note(fact)
            kinds.add(type(fact))
        if facts and rng.random() < 0.1:
            store.compact(changes.snapshot())
        elif facts:
            written(store, facts, books.length)
        if rng.random() < 0.02:
            store.close()
            store = Store(file, power=False)
            read = store.load()
            assert read.books == books
            assert list(read.books.jobs) == list(books.jobs)
            assert list(read.books.iterations) == list(books.iterations)
            books, changes = read.books, read.changes
            world.core = Core(books, SETTINGS, world.now)
    store.close()

    assert loaded(file) == books
    assert len(kinds) >= 12


def test_a_log_cut_at_any_byte_gives_a_prefix_with_all_that_was_acknowledged(file, tmp_path):
    world = World(3)
    with Store(file, power=False) as store:
        store.load()
        lengths, sizes = [0], [0]
        seen = [copied(world.books)]
        log = file.with_name("journal.db-wal")
        while len(lengths) < 40:
            if facts := world.step():
                written(store, facts, world.books.length)
                lengths.append(world.books.length)
                sizes.append(log.stat().st_size)
                seen.append(copied(world.books))
        main, data = file.read_bytes(), log.read_bytes()
    again = tmp_path / "again"
    again.mkdir()
    cuts = {*range(0, len(data), 3989), *sizes, *(s - 1 for s in sizes[1:]), *range(0, 60, 7)}

    for cut in sorted(cuts):
        rubbish = (b"", b"\x00" * 5000, bytes(range(256)) * 33)[cut % 3 if cut >= 32 else 0]
        (again / "journal.db").write_bytes(main)
        (again / "journal.db-wal").write_bytes(data[:cut] + rubbish)
        books = loaded(again / "journal.db")

        acknowledged = max(n for n, size in zip(lengths, sizes, strict=True) if size <= cut)
        assert books.length == acknowledged
        assert books == seen[lengths.index(acknowledged)]


def test_a_torn_end_is_told_in_one_line_and_a_whole_one_is_not(file, caplog):
    log = file.with_name("journal.db-wal")
    store = Store(file, power=False)
    for length in range(1, 4):
        written(store, [DatasetRegistered(f"d{length}", (), "")], length)
    main, data = file.read_bytes(), log.read_bytes()
    store.close()
    with caplog.at_level(logging.WARNING, "penstock.dispatcher"):
        file.write_bytes(main)
        log.write_bytes(data)
        assert loaded(file).length == 3
        assert not caplog.records

        file.write_bytes(main)
        log.write_bytes(data[:-100])
        assert loaded(file).length == 2

    (record,) = caplog.records
    assert "cut short" in record.getMessage()
    assert str(log) in record.getMessage()
    assert str(wal.FRAME.size + 4096 - 100) in record.getMessage()


def test_a_log_whose_older_round_shows_behind_the_newer_is_whole(file):
    log = file.with_name("journal.db-wal")
    with Store(file, power=False) as store:
        for length in range(1, 3000):
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 50)], length)
        assert wal.inspect(log).nbytes == 0
        assert 0 < wal.inspect(log).at < log.stat().st_size


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


def test_a_row_that_was_changed_is_named(file):
    with Store(file, power=False) as store:
        written(store, [DatasetRegistered("d1", (), "")], 1)
        written(store, [DatasetRegistered("d2", (), "")], 2)
    with sqlite3.connect(file) as db:
        db.execute(
            "UPDATE facts SET body = CAST(replace(body, 'd2', 'd3') AS BLOB) WHERE length = 2"
        )
    db.close()

    with pytest.raises(JournalError, match=rf"{file}.*row 2 of table facts.*copy"):
        loaded(file)


def test_a_row_that_is_missing_is_named(file):
    with Store(file, power=False) as store:
        for length in (1, 2, 3):
            written(store, [DatasetRegistered(f"d{length}", (), "")], length)
    with sqlite3.connect(file) as db:
        db.execute("DELETE FROM facts WHERE length = 2")
    db.close()

    with pytest.raises(JournalError, match="row 3 .*facts from 2 to 2 are missing"):
        loaded(file)


def test_a_damaged_page_is_named_and_nothing_is_changed(file):
    with Store(file, power=False) as store:
        for length in range(1, 400):
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 40)], length)
    whole = file.read_bytes()
    for place, match in ((8192, "age"), (10, None), (100, None)):
        broken = bytearray(whole)
        broken[place : place + 200] = b"\xff" * 200
        file.write_bytes(broken)

        with pytest.raises(JournalError, match=match) as caught:
            loaded(file)
        assert str(file) in str(caught.value)
        assert file.read_bytes() == broken


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"CREATE TABLE facts", b"CREATE TABLE f\xe5cts"),  # no UTF-8
        (b"jobs", b"jmbs"),
        (b"lines", b"liqes"),
    ],
    ids=["schema", "kind", "table"],
)
def test_a_flipped_bit_in_any_name_is_damage_too(file, was, now):
    parameters = JobParameters("d1", Mode.DYNAMIC, Codec.NONE, None, False, "AUTO", False, "drop")
    books = Books()
    with Store(file, power=False) as store:
        changes = Changes(books)
        for fact in (DatasetRegistered("d1", (), ""), JobMade("j", parameters, 1, False)):
            books.apply(fact)
            changes.note(fact)
        store.compact(changes.snapshot())
    whole = file.read_bytes()
    assert was in whole
    file.write_bytes(whole.replace(was, now))

    with pytest.raises(JournalError, match="journal.db is damaged"):
        loaded(file)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_file_that_lost_its_end_is_refused(file, part):
    with Store(file, power=False) as store:
        for length in range(1, 400):
            written(store, [DatasetRegistered(f"d{length}", (), "x" * 40)], length)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])

    with pytest.raises(JournalError, match="journal.db is damaged"):
        loaded(file)


def test_a_lost_file_beside_its_log_is_refused_and_the_log_kept(file):
    log = file.with_name("journal.db-wal")
    store = Store(file, power=False)
    written(store, [DatasetRegistered("d1", (), "")], 1)
    data = log.read_bytes()
    store.close()
    log.write_bytes(data)
    file.write_bytes(b"")

    with pytest.raises(JournalError, match="journal.db is empty or missing"):
        Store(file, power=False)
    assert log.read_bytes() == data


def test_a_newer_format_is_refused_by_name_and_left_alone(file):
    Store(file, power=False).close()
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    db.close()
    before = file.read_bytes()

    with pytest.raises(JournalError, match=f"format {FORMAT + 1}.*knows {FORMAT}"):
        Store(file, power=False)
    assert file.read_bytes() == before


def test_another_file_of_sqlite_is_no_journal(file):
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE notes (x)")
    db.close()

    with pytest.raises(JournalError, match="no journal of Penstock"):
        Store(file, power=False)
    file.write_bytes(b"hello " * 1000)
    with pytest.raises(JournalError, match="not a database"):
        Store(file, power=False)


def test_a_fact_that_only_a_newer_version_knows_is_named(file):
    with Store(file, power=False) as store:
        store.append(1, forms.encode_facts([forms.msgspec.Raw(b"\x92\xa4Futu\x80")]))

    with pytest.raises(JournalError, match="'Futu', which only a newer Penstock knows"):
        loaded(file)


def test_a_field_that_has_a_default_may_be_missing_and_one_too_many_is_passed_over():
    fields = {"dataset": "d", "streams": [], "unsplittable": "", "newer": 1}
    row = forms.msgspec.msgpack.encode([("DatasetRegistered", fields)])

    assert forms.decode_facts(row) == [DatasetRegistered("d", (), "")]


def test_the_file_does_not_grow_with_history(file):
    world = World(5)
    store = Store(file, power=False)
    world.core = Core(store.load().books, SETTINGS, 0.0)
    changes, sizes = Changes(world.books), []
    for step in range(3000):
        facts = world.step()
        for fact in facts:
            changes.note(fact)
        if step % 20 == 19:
            store.compact(changes.snapshot())
        elif facts:
            written(store, facts, world.books.length)
        if step % 1000 == 999:
            store._shrink_log()
            sizes.append(file.stat().st_size)
    store.close()

    assert sizes[-1] < 2 * sizes[0] + 200_000


def test_a_snapshot_writes_only_the_lines_that_were_named(file):
    store = Store(file, power=False)
    books = store.load().books
    core = Core(books, SETTINGS, 0.0)
    changes = Changes(books)
    core.handle(Begin(1000), 0.0)
    core.handle(Register(1, VERSIONS, "d", (Stream(("s",), 10, None, 1, 1),), ""), 0.0)

    def opened(job):
        request = OpenRequest(VERSIONS, "d", Mode.DYNAMIC, job, 1, Codec.NONE)
        for effect in core.handle(OpenIteration(2, request, 7), 0.0):
            if isinstance(effect, Write):
                changes.note(effect.fact)

    for job in range(200):
        opened(f"job{job}")
    first = changes.snapshot()
    opened("one more")
    second = changes.snapshot()
    store.close()

    assert len([line for line in first.lines if line.table == "jobs"]) == 200
    assert [line.key for line in second.lines] == [forms.encode_key("one more")]


def test_jobs_that_are_dropped_for_there_are_too_many_leave_the_file(file, monkeypatch):
    monkeypatch.setattr("penstock_dispatcher.core.books.JOBS_KEPT", 3)
    store = Store(file, power=False)
    books = store.load().books
    core, changes = Core(books, SETTINGS, 0.0), Changes(books)

    def hear(signal, now):
        for effect in core.handle(signal, now):
            if isinstance(effect, Write):
                changes.note(effect.fact)

    hear(Begin(1000), 0.0)
    hear(Register(1, VERSIONS, "d", (Stream(("s",), 10, None, 1, 1),), ""), 0.0)
    now = 0.0
    for job in range(8):
        hear(
            OpenIteration(2, OpenRequest(VERSIONS, "d", Mode.OFF, f"j{job}", 1, Codec.NONE), 7), now
        )
        while books.iterations:
            now += 1
            hear(Tick(), now)
        store.compact(changes.snapshot())
    store.close()

    assert list(books.jobs) == ["j5", "j6", "j7"]
    assert list(loaded(file).jobs) == ["j5", "j6", "j7"]


def test_a_full_store_loses_nothing_and_goes_on_when_there_is_room(file):
    store = Store(file, power=False, max_pages=20)
    length = 0
    with pytest.raises(StoreFull, match=rf"no room to write {file}.*free space"):
        while True:
            written(store, [DatasetRegistered(f"d{length + 1}", (), "x" * 500)], length + 1)
            length += 1
    with pytest.raises(StoreFull):
        written(store, [DatasetRegistered(f"d{length + 1}", (), "x" * 500)], length + 1)

    store._ask("PRAGMA max_page_count = 1000")
    written(store, [DatasetRegistered(f"d{length + 1}", (), "x" * 500)], length + 1)
    store.close()

    assert length > 20
    assert loaded(file).length == length + 1


def test_a_snapshot_makes_room_in_a_full_store(file):
    store = Store(file, power=False, max_pages=30)
    books = store.load().books
    changes = Changes(books)
    with pytest.raises(StoreFull):
        while True:
            facts = [JobMade("j", _parameters(), 1, False), DatasetRegistered("d", (), "x" * 500)]
            for fact in facts:
                books.apply(fact)
                changes.note(fact)
            written(store, facts, books.length)

    store.compact(changes.snapshot())
    store.close()

    assert loaded(file) == books


def _parameters():
    return JobParameters("d", Mode.OFF, Codec.NONE, None, False, "AUTO", False, "drop")


def test_a_folder_belongs_to_one(tmp_path):
    lock = FolderLock(tmp_path)

    with pytest.raises(ConfigError, match=rf"{tmp_path} is in use .*process \d+ on"):
        FolderLock(tmp_path)
    lock.release()
    lock.release()
    FolderLock(tmp_path).release()


def test_power_is_bought_with_an_fsync_of_each_transaction(file):
    with Store(file, power=True) as store:
        assert store._ask("PRAGMA synchronous") == [(2,)]
    with Store(file, power=False) as store:
        assert store._ask("PRAGMA synchronous") == [(1,)]
        assert store._ask("PRAGMA journal_mode") == [("wal",)]
        assert store._ask("PRAGMA quick_check") == [("ok",)]
    assert not list(file.parent.glob("*-wal"))
