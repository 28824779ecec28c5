"""Names of listed files: kept once for each listing, on disk before what refers to them."""

import asyncio
import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import ConfigError, JournalError, Refused, StoreFull
from penstock.protocol.control import ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.core.listings import outline, read
from penstock_dispatcher.journal.journal import open_journal
from penstock_dispatcher.server import dispatching
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.work_dir import listing_store
from penstock_dispatcher.work_dir.listing_store import KEPT, FileListings
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")
NAMES = ("/data/ä\udcff.tar", "/data/b\n.tar", "s3://c")
LISTING = outline(NAMES)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "listings"


async def test_a_listing_is_one_file_however_often_it_is_kept(folder, clock):
    kept = FileListings(folder, power=True, clock=clock)
    await kept.keep(LISTING, NAMES)
    (file,) = folder.iterdir()
    written = file.stat().st_ino

    await kept.keep(LISTING, tuple(NAMES))
    await kept.keep(outline(()), ())

    assert file.stat().st_ino == written
    assert read(file.read_bytes(), LISTING) == NAMES
    assert read((folder / outline(()).digest).read_bytes(), outline(())) == ()


async def test_a_damaged_listing_is_overwritten_when_it_is_kept_again(folder):
    kept = FileListings(folder)
    await kept.keep(LISTING, NAMES)
    (file,) = folder.iterdir()
    for damage in (b"", file.read_bytes()[:-1], b"\xff" + file.read_bytes()[1:]):
        file.write_bytes(damage)
        assert read(damage, LISTING) is None

        await kept.keep(LISTING, NAMES)

        assert read(file.read_bytes(), LISTING) == NAMES


async def test_what_no_pass_refers_to_is_removed_but_not_at_once(folder, clock):
    kept = FileListings(folder, clock=clock)
    await kept.keep(LISTING, NAMES)
    left = []
    for used in ((), {LISTING.digest}, (), ()):
        clock.now += KEPT - 1
        kept.release(used)
        await kept.sweep()
        left.append(len(list(folder.iterdir())))

    assert left == [1, 1, 1, 0]


async def test_what_is_kept_again_before_the_sweep_stays(folder, clock):
    kept = FileListings(folder, clock=clock)
    await kept.keep(LISTING, NAMES)
    clock.now += KEPT + 1
    kept.release(())

    await kept.keep(LISTING, NAMES)
    await kept.sweep()

    assert (folder / LISTING.digest).exists()


async def test_a_restart_removes_what_was_half_written_and_what_is_unused(folder, clock):
    await FileListings(folder).keep(LISTING, NAMES)
    (folder / ".tmpabc").write_bytes(b"half")

    kept = FileListings(folder, clock=clock)
    assert [file.name for file in folder.iterdir()] == [LISTING.digest]
    clock.now += KEPT + 1
    kept.release(())
    await kept.sweep()

    assert not list(folder.iterdir())


async def test_a_folder_of_no_use_and_a_full_disk_are_named(folder, monkeypatch):
    folder.touch()
    with pytest.raises(ConfigError, match="listings cannot be used"):
        FileListings(folder)
    folder.unlink()
    kept = FileListings(folder)
    for number, kind in ((28, StoreFull), (5, Refused)):

        def fail(*_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(listing_store, "write_whole", fail)
        with pytest.raises(kind, match=LISTING.digest):
            await kept.keep(LISTING, NAMES)


# --- with a dispatcher ---


@pytest.fixture
def config(tmp_path):
    return DispatcherConfig(work_dir=str(tmp_path / "work"))


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(40):
        (folder / f"file-{i:03}.txt").touch()
    return folder


@asynccontextmanager
async def living(config):
    journal = await asyncio.to_thread(open_journal, Path(config.work_dir), power=False)
    dispatcher = DispatcherService(config, journal)
    try:
        yield dispatcher, journal
    finally:
        dispatcher.close()
        await journal.aclose()


async def opened(api, data, job="j", repetition=1, **more):
    dataset = Dataset.list_files(f"{data}/*.txt", **more).repeat(2)
    name = await api.register_dataset(encode(dataset.node).to_bytes(), VERSIONS)
    request = opening(VERSIONS, name, Mode.DYNAMIC, job, repetition, Codec.NONE)
    return (await api.open_iteration(request)).iteration


def kept_files(config):
    return sorted((Path(config.work_dir) / "listings").iterdir())


def source_of(api, iteration):
    (source,) = api._core.state.iterations[iteration].providers
    return source


async def begin(api, iteration):
    """Have a worker draw a first split."""
    api._handle(WorkerHeartbeat("w:1", 1, -1, versions=VERSIONS))
    api._handle(ReaderHeartbeat(iteration, "r", None, 1))


async def test_names_are_on_disk_once_and_neither_in_facts_nor_in_snapshots(config, data):
    async with living(config) as (api, journal):
        first = await opened(api, data, "first")
        second = await opened(api, data, "second")
        await opened(api, data, "third", seed=3)
        await begin(api, first)

        assert len(kept_files(config)) == 1
        assert source_of(api, first).known.names is source_of(api, second).known.names
        (task,) = journal.state.iterations[first].tasks.values()
        known = {name for split in task.logs[0].splits for name in split.names}
        known.update(part.first for part in outline(names(data)).ranges)
        async with asyncio.timeout(20):
            await journal._settled.wait()
        written = rows(config)
        assert {n for n in names(data) if n.encode() in written} == known
    # At the end a snapshot was written.
    assert {n for n in names(data) if n.encode() in rows(config)} == known
    assert len(known) < 16 < len(names(data))


def names(data):
    return [str(file) for file in sorted(data.iterdir())]


def rows(config):
    return b"".join(file.read_bytes() for file in Path(config.work_dir).glob("journal.db*"))


async def test_names_are_on_disk_before_a_fact_refers_to_them(config, data, monkeypatch):
    seen = []
    right = listing_store.FileListings.keep

    async def keep(self, listing, found):
        seen.append(len(self._folder.parent.joinpath("journal.db-wal").read_bytes()))
        await right(self, listing, found)
        seen.append(kept_files(config)[0].name == listing.digest)

    monkeypatch.setattr(listing_store.FileListings, "keep", keep)
    async with living(config) as (api, journal):
        append = journal.append
        monkeypatch.setattr(
            journal, "append", lambda fact: (seen.append(type(fact).__name__), append(fact))
        )
        await opened(api, data)

    assert seen.index(True) < seen.index("IterationOpened")


@pytest.mark.parametrize("ends", ["in order", "killed"])
async def test_a_restart_goes_on_in_the_same_order_over_the_files_of_then(
    config, data, tmp_path, ends
):
    async with living(config) as (api, journal):
        one, two = await opened(api, data, "one"), await opened(api, data, "two")
        await begin(api, one)
        whole = [source_of(api, i).named(turn, 0, 40) for i in (one, two) for turn in (0, 1)]
        async with asyncio.timeout(20):
            await journal._settled.wait()
        if ends == "killed":
            shutil.copytree(config.work_dir, tmp_path / "copy")
            config = replace(config, work_dir=str(tmp_path / "copy"))
    shutil.rmtree(data)

    async with living(config) as (api, _):
        again = [source_of(api, i).named(turn, 0, 40) for i in (one, two) for turn in (0, 1)]
        assert source_of(api, one).known.names is source_of(api, two).known.names
        assert again == whole


@pytest.mark.parametrize("damage", ["missing", "cut", "changed", "unreadable"])
async def test_a_listing_that_is_not_what_was_written_stops_the_start(config, data, damage):
    async with dispatching(config) as api:
        await opened(api, data)
    (file,) = kept_files(config)
    whole = file.read_bytes()
    file.unlink()
    match damage:
        case "cut":
            file.write_bytes(whole[:-1])
        case "changed":
            file.write_bytes(whole.replace(b"file-007", b"file-107"))
        case "unreadable":
            file.mkdir()

    with pytest.raises(JournalError, match=rf"{file.name} .*'j'.*Restore the file.*delete"):
        async with dispatching(config):
            pass

    if damage == "unreadable":
        file.rmdir()
    file.write_bytes(whole)  # the folder is not locked any more
    async with dispatching(config):
        pass


async def test_a_listing_of_which_all_passes_are_over_is_not_looked_for(config, data):
    async with dispatching(config) as api:
        iteration = await opened(api, data)
        api._core.ctx.finish(iteration, api._clock())
        api._commit_effects(api._core.ctx.effects)
    (file,) = kept_files(config)
    file.unlink()

    async with dispatching(config) as api:
        assert not api._core.state.listings_used


async def test_a_listing_is_released_when_what_no_longer_refers_to_it_is_written(config, data):
    released = []
    async with living(config) as (api, journal):
        iteration = await opened(api, data)
        api._listings.release = released.append
        await api._sweep()
        digest = kept_files(config)[0].name
        journal._busy = True  # a slow disk
        api._core.ctx.finish(iteration, api._clock())
        api._commit_effects(api._core.ctx.effects)
        await api._sweep()

        assert released == [{digest}]

        journal._busy = False
        journal._write_batch()
        async with asyncio.timeout(20):
            await journal._settled.wait()
        assert released == [{digest}, set()]


async def test_the_order_of_the_next_pass_is_made_in_a_thread_while_this_one_is_read(
    config, data, monkeypatch
):
    monkeypatch.setattr("penstock_dispatcher.core.split_provider.MANY", 10)
    async with dispatching(config) as api:
        iteration = await opened(api, data)
        await begin(api, iteration)
        async with asyncio.timeout(20):
            while len(source_of(api, iteration).known.orders) < 2:
                await asyncio.sleep(0)

        monkeypatch.setattr("penstock.files.order", None)
        passes = [source_of(api, iteration).named(turn, 0, 40) for turn in (0, 1)]
    assert passes[0] != passes[1]
    assert set(passes[0]) == set(passes[1]) == set(names(data))


@pytest.mark.parametrize(("at", "turns"), [(1, [0]), (36, [0, 1])])
async def test_a_restart_makes_the_orders_of_soon_before_it_serves(
    config, data, monkeypatch, at, turns
):
    async with dispatching(config) as api:
        iteration = await opened(api, data)
        source_of(api, iteration).offset = at
        orders = [source_of(api, iteration).named(turn, 0, 40) for turn in turns]
    async with dispatching(config) as api:
        monkeypatch.setattr("penstock.files.order", None)

        assert [source_of(api, iteration).named(turn, 0, 40) for turn in turns] == orders
