import itertools
import resource
import threading
from contextlib import contextmanager

import fsspec
import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, TransformError
from penstock.graph.run import open_root
from penstock.ops.internal import cache_file, cache_writer


def noisy(x, *, rng):
    return x, rng.integers(1 << 30)


def picky(x):
    if x == 1:
        raise ValueError("one")
    return x


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(cache_writer, "BLOCK_COUNT", 4)


@pytest.fixture
def fresh(tmp_path):
    """Give another name each time."""
    numbers = itertools.count()
    return lambda: tmp_path / "new" / str(next(numbers))


@pytest.fixture
def reads(monkeypatch):
    """Where blocks were read."""
    seen, read = [], cache_file.read_block

    def spy(name, source, start, stop):
        seen.append(start)
        return read(name, source, start, stop)

    monkeypatch.setattr(cache_file, "read_block", spy)
    return seen


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_later_datasets_read_what_the_first_one_made(tmp_path):
    file = tmp_path / "a" / "cache"
    made = [list(Dataset.range(5).map(noisy).cache(file)) for _ in range(3)]

    assert made[0] == made[1] == made[2]
    assert list(Dataset.range(5).map(noisy).cache(str(file)).repeat(2)) == made[0] * 2
    assert names(file.parent) == ["cache"]


def test_nothing_before_the_cache_is_called_where_its_file_is(counted, tmp_path):
    fn = counted(lambda x: x * 2)
    dataset = Dataset.range(5).map(fn).cache(tmp_path / "cache")

    assert list(dataset.repeat(2)) == list(dataset) + list(dataset) == [0, 2, 4, 6, 8] * 2
    assert fn.calls == [0, 1, 2, 3, 4]


def test_a_pass_that_is_not_read_to_its_end_leaves_nothing(counted, tmp_path, small_blocks):
    fn = counted(lambda x: x)
    dataset = Dataset.range(50).map(fn).cache(tmp_path / "cache")
    it = iter(dataset)
    for _ in range(20):
        next(it)
    assert len(names(tmp_path)) == 1
    it.close()

    assert names(tmp_path) == []
    assert list(dataset.take(20).repeat(2)) == list(range(20)) * 2
    assert names(tmp_path) == []


@pytest.mark.quick(3)
@pytest.mark.parametrize("count", [0, 1, 4, 7, 9])
def test_the_first_pass_and_later_ones_have_exact_states(check_states, fresh, small_blocks, count):
    check_states(lambda: Dataset.range(count).cache(fresh()).repeat(3), list(range(count)) * 3)
    check_states(lambda: Dataset.range(count).map(noisy).cache(fresh()).skip(2).repeat(2))


def test_places_in_a_file_that_is_there_have_exact_states(check_states, tmp_path, small_blocks):
    file = tmp_path / "cache"
    filled = list(Dataset.range(11).map(noisy).cache(file))

    with Dataset.range(11).map(noisy).cache(file).iterator() as it:
        states = [it.state()]
        for _ in filled:
            next(it)
            states.append(it.state())
    for position, state in enumerate(states):
        assert list(Dataset.range(11).map(noisy).cache(file).iterator(state)) == filled[position:]
    for position, state in enumerate(states):
        file.unlink()  # then they are made again, as they were
        assert list(Dataset.range(11).map(noisy).cache(file).iterator(state)) == filled[position:]


def test_a_file_of_another_run_is_no_help_to_a_state(tmp_path):
    make = lambda: Dataset.range(6).map(noisy).cache(tmp_path / "cache").repeat(2)
    with iter(make()) as it:
        elsewhere = [next(it) for _ in range(9)]
        state = it.state()
    (tmp_path / "cache").unlink()
    filled = list(make())[:6]
    before = (tmp_path / "cache").read_bytes()

    tail = list(make().iterator(state))

    assert filled != elsewhere[:6]
    assert tail == elsewhere[3:6]
    assert (tmp_path / "cache").read_bytes() == before
    assert names(tmp_path) == ["cache"]


def test_errors_come_in_the_first_pass_only(check_states, fresh):
    failed = TransformError("map(picky)", 1, "ValueError: one")

    check_states(
        lambda: Dataset.range(3).map(picky).cache(fresh()).repeat(3), [0, failed, 2, 0, 2, 0, 2]
    )


def test_elements_of_all_kinds_come_back_as_they_were(plain, tmp_path, small_blocks):
    def element(x):
        return {
            "scalar": np.float16(x / 4),
            "ragged": np.arange(x % 5, dtype=">i2"),
            "text": "zeile\0 \U0001f600 \udcff" * (x % 3),
            "bytes": b"\0raw" * (x % 4),
            "words": np.array(["a\0", "bb"] * (x % 2 + 1), dtype=object),
            "more": (x % 2 == 0, "other" if x % 7 == 3 else x),
        }

    make = lambda: Dataset.range(40).map(element).cache(tmp_path / "cache")

    assert (
        plain(tuple(make())) == plain(tuple(make())) == plain(tuple(Dataset.range(40).map(element)))
    )


def test_a_block_is_read_when_it_is_wanted_and_no_other(tmp_path, small_blocks, reads):
    make = lambda: Dataset.range(400).cache(tmp_path / "cache")
    list(make())
    run = open_root(make().node, Context.local(0, persistent=True))

    assert run.skip(201) == 201
    assert reads == []
    assert run.block(9) == [201, 202, 203]
    assert run.skip(1000) == 196
    assert run.block(1) == []
    assert len(reads) == 1
    run.close()


def test_a_file_is_read_block_by_block(tmp_path, small_blocks, reads):
    list(Dataset.range(40).cache(tmp_path / "cache"))

    assert list(Dataset.range(40).cache(tmp_path / "cache")) == list(range(40))
    assert len(reads) == 10


def test_several_may_fill_one_file_at_once(tmp_path):
    file = tmp_path / "cache"
    made, together = [], threading.Barrier(4)

    def fill():
        it = iter(Dataset.range(2000).map(noisy).cache(file).repeat(2))
        first = next(it)
        together.wait(20)
        made.append([first, *it])

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(made) == 4
    assert all(numbers[:2000] == numbers[2000:] for numbers in made)
    assert list(Dataset.range(2000).map(noisy).cache(file)) in [x[:2000] for x in made]
    assert names(tmp_path) == ["cache"]


def test_where_elements_must_be_the_tasks_own_no_file_is_shared(check_states, tmp_path):
    file = tmp_path / "cache"
    here = list(Dataset.range(20).map(noisy).cache(file))
    before = file.read_bytes()

    def task(number):  # as on a worker
        run = open_root(
            Dataset.range(20).map(noisy).cache(file).repeat(2).node, Context.local(7, number)
        )
        out = []
        while block := run.block(7):
            out += block
        run.close()
        return out

    one, other = task(0), task(1)
    assert one[:20] == one[20:] == task(0)[:20]
    assert len({str(here), str(one[:20]), str(other[:20])}) == 3
    assert file.read_bytes() == before
    assert names(tmp_path) == ["cache"]


def test_a_file_of_another_pipeline_is_refused(tmp_path):
    def other(x):
        return x + 1

    list(Dataset.range(3).map(noisy).cache(tmp_path / "cache"))

    with pytest.raises(DatasetError) as caught:
        iter(Dataset.range(3).map(other).cache(tmp_path / "cache"))

    for part in (str(tmp_path / "cache"), "range → map(noisy)", "other)", "delete it"):
        assert part in str(caught.value)


def test_no_byte_of_a_file_can_change_unnoticed(tmp_path, small_blocks):
    file = tmp_path / "cache"
    make = lambda: Dataset.range(9).map(lambda x: {"x": x}).cache(file)
    list(make())
    good = file.read_bytes()

    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x41
        file.write_bytes(bad)
        with pytest.raises(DatasetError, match=rf"{file}' cannot be read at byte \d+: .*delete"):
            list(make())
    file.write_bytes(good)
    assert len(list(make())) == 9


def test_a_file_that_was_cut_short_is_named_with_the_place(tmp_path, small_blocks):
    file = tmp_path / "cache"
    make = lambda: Dataset.range(9).cache(file)
    list(make())
    good = file.read_bytes()

    for length in range(len(good)):
        file.write_bytes(good[:length])
        with pytest.raises(DatasetError, match=f"{file}' cannot be read at byte"):
            list(make())


def test_a_block_that_is_damaged_names_its_place_each_time(tmp_path, small_blocks):
    file = tmp_path / "cache"
    make = lambda: Dataset.range(9).cache(file)
    list(make())
    data = bytearray(file.read_bytes())
    _, start, _ = cache_file.CacheFile.open(str(file))._index.find(5)
    data[start + 30] ^= 1
    file.write_bytes(data)

    it = iter(make())
    assert [next(it) for _ in range(4)] == [0, 1, 2, 3]
    for _ in range(2):
        with pytest.raises(DatasetError, match=f"at byte {start}: the checksum of a block"):
            next(it)


def test_another_file_and_one_of_a_later_version_are_refused(tmp_path):
    file = tmp_path / "cache"
    file.write_text("my thesis")
    with pytest.raises(DatasetError, match="no cache file"):
        list(Dataset.range(3).cache(file))
    assert file.read_text() == "my thesis"

    file.write_bytes(cache_file.HEAD.pack(b"PENSTOCK", 2, 0, 0))
    with pytest.raises(DatasetError, match="version 2"):
        list(Dataset.range(3).cache(file))


@contextmanager
def disk_of(nbytes):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def outcomes(it):
    out, errors = [], []
    while True:
        try:
            out.append(next(it))
        except StopIteration:
            return out, errors
        except DatasetError as exc:
            errors.append(str(exc))


@pytest.mark.parametrize("room", [0, 70, 4000, 39_000])
def test_a_full_disk_is_told_once_a_pass_and_costs_no_element(tmp_path, small_blocks, room):
    file = tmp_path / "cache"
    make = lambda: Dataset.range(50).map(lambda x: np.full(100, x)).cache(file)

    with disk_of(room):
        seen, errors = outcomes(iter(make().repeat(2)))

    assert [int(x[0]) for x in seen] == list(range(50)) * 2
    assert len(errors) == 2
    assert str(file) in errors[0]
    assert "File too large" in errors[0]
    assert names(tmp_path) == []
    assert len(list(make())) == 50
    assert names(tmp_path) == ["cache"]


def test_a_state_behind_a_full_disk_is_exact(tmp_path, small_blocks):
    make = lambda: Dataset.range(30).cache(tmp_path / "cache").batch(1)
    it = iter(make())

    with disk_of(0):
        seen, states = [], []
        while len(seen) < 30:
            try:
                seen.append(next(it))
            except DatasetError:
                pass
            states.append((len(seen), it.state()))
    it.close()

    for position, state in states:
        assert [int(x[0]) for x in make().iterator(state)] == list(range(position, 30))


def test_elements_that_no_file_can_hold_are_named(tmp_path):
    windows = Dataset.range(6).window(2).cache(tmp_path / "cache").flat_map(lambda w: w)

    it = iter(windows)
    with pytest.raises(DatasetError, match="without a filename"):
        next(it)

    assert list(it) == [0, 1, 2, 3, 4, 5]
    assert names(tmp_path) == []


def test_a_file_behind_a_url(small_blocks):
    fs = fsspec.filesystem("memory")
    make = lambda: Dataset.range(30).map(noisy).cache("memory://caches/numbers")
    try:
        filled = list(make())

        assert list(make().repeat(2)) == filled * 2
        assert fs.ls("/caches", detail=False) == ["/caches/numbers"]
        with pytest.raises(DatasetError, match="another pipeline"):
            list(Dataset.range(3).cache("memory://caches/numbers"))
    finally:
        fs.rm("/caches", recursive=True)


def test_bad_filenames_are_named(tmp_path):
    for wrong in (None, 3, b"x", ["a"]):
        with pytest.raises(DatasetError, match="filename must be a path"):
            Dataset.range(1).cache(wrong)
    with pytest.raises(DatasetError, match=f"{tmp_path}' is a folder"):
        list(Dataset.range(1).cache(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="file/cache"):
        list(Dataset.range(1).cache(tmp_path / "file" / "cache"))
