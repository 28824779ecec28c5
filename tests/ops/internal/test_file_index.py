"""Elements of files by their numbers, for each source that has an index."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.analysis.index_selection import selected
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.engine.draws import Permutation
from penstock.errors import DatasetError, FileChanged, MissingFile, StateError, TransformError
from penstock.frames.compression import zstd_module
from penstock.ops.internal import file_index
from penstock.protocol.splits import Split
from tests.ops.internal.test_file_parts import KINDS, Kind, run, write_mds
from tests.sent_definitions import travelled

INDEXED = {
    **{name: kind for name, kind in KINDS.items() if name != "csv"},
    "lazy": replace(
        KINDS["webdataset"],
        make=lambda files: Dataset.webdataset(files, lazy=True),
        number=lambda e: int(e["n"].read()),
    ),
    "mds": Kind(lambda path: Dataset.mds(path.parent), write_mds, lambda e: int(e["n"])),
}


@pytest.fixture(params=INDEXED)
def kind(request):
    return INDEXED[request.param]


@pytest.fixture(autouse=True)
def kept_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def in_order(numbers, seed):
    return [numbers[i] for i in Permutation(seed, len(numbers)).at(np.arange(len(numbers)))]


def test_elements_come_in_the_order_of_the_seed_from_every_state(kind, check_states, tmp_path):
    kind.write(tmp_path / "f", range(13))
    plain = list(kind.make(tmp_path / "f"))

    check_states(
        lambda: kind.make(tmp_path / "f").global_shuffle(seed=3),
        in_order(plain, 3),
        blocks=(1, 3, 64),
        max_state=200,
    )


def test_several_files_are_one_index(kind, tmp_path):
    if kind is INDEXED["mds"]:
        pytest.skip("a folder is one dataset")
    kind.write(tmp_path / "a", range(20))
    kind.write(tmp_path / "b", range(0))
    kind.write(tmp_path / "c", range(20, 29))
    dataset = kind.make([tmp_path / "a", tmp_path / "b", tmp_path / "c"]).global_shuffle(seed=1)

    assert [kind.number(e) for e in dataset] == in_order(range(29), 1)
    assert dataset.cardinality() == 29


@pytest.mark.parametrize("tasks", [1, 7])
def test_tasks_that_draw_positions_have_each_element_once(kind, tmp_path, tasks):
    kind.write(tmp_path / "f", range(60))
    dataset = kind.make(tmp_path / "f").global_shuffle(seed=5)
    (provider,) = split_providers(dataset.node)
    node = selected(travelled(dataset.node))
    logs, rng = [[] for _ in range(tasks)], Random(tasks)
    for start in range(0, 60, 6):
        rng.choice(logs).append(Split(start, start + 6))

    made = {
        i: [kind.number(e) for e in run(node, provider, [*log, Split(60, 60)])]
        for i, log in enumerate(logs)
    }

    order = in_order(range(60), 5)
    assert Counter(n for task in made.values() for n in task) == Counter(range(60))
    for i, log in enumerate(logs):
        assert made[i] == [n for split in log for n in order[split.start : split.stop]]


def test_a_pass_takes_less_than_a_window_and_each_window_is_sorted(kind, tmp_path, monkeypatch):
    """Windows of any size give the same elements."""
    kind.write(tmp_path / "f", range(100))
    seen = []
    for nbytes in (1, 3000, 1 << 26):
        monkeypatch.setattr(file_index, "_WINDOW_BYTES", nbytes)
        monkeypatch.setattr(file_index, "_KEPT_BYTES", nbytes)
        seen.append([kind.number(e) for e in kind.make(tmp_path / "f").global_shuffle(seed=2)])

    assert seen == [in_order(range(100), 2)] * 3


def test_an_index_is_made_once_and_again_for_another_version(kind, tmp_path, monkeypatch):
    kind.write(tmp_path / "f", range(30))
    kind.make(tmp_path / "f").global_shuffle(seed=1)
    node = type(kind.make(tmp_path / "f").node)
    made = []
    index = node.index
    monkeypatch.setattr(node, "index", lambda self, part: made.append(part) or index(self, part))

    again = kind.make(tmp_path / "f").global_shuffle(seed=1)
    assert [kind.number(e) for e in again] == in_order(range(30), 1)
    assert not made

    kind.write(tmp_path / "f", range(31))
    assert kind.make(tmp_path / "f").global_shuffle().cardinality() == 31
    assert len(made) == 1


def test_an_index_that_cannot_be_kept_is_made_each_time(kind, tmp_path, monkeypatch):
    (tmp_path / "none").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    kind.write(tmp_path / "f", range(9))

    assert len(list(kind.make(tmp_path / "f").global_shuffle())) == 9


def test_a_kept_index_that_is_damaged_is_made_again(tmp_path):
    kind = INDEXED["json_lines"]
    kind.write(tmp_path / "f", range(9))
    kind.make(tmp_path / "f").global_shuffle()
    (kept,) = (tmp_path / "cache/penstock/indexes").iterdir()
    kept.write_bytes(b"?")

    assert len(list(kind.make(tmp_path / "f").global_shuffle())) == 9


def test_a_file_that_is_replaced_is_an_error_that_names_it_again_and_again(kind, tmp_path):
    if kind is INDEXED["mds"]:
        pytest.skip("its file has another name")
    kind.write(tmp_path / "f", range(100))
    dataset = kind.make(tmp_path / "f").global_shuffle(seed=1)
    kind.write(tmp_path / "f", range(500, 600))
    iterator = dataset.ignore_errors().iterator()

    for _ in range(2):
        with pytest.raises(FileChanged, match=rf"{tmp_path}/f was changed since it was listed"):
            next(iterator)


def test_a_state_of_other_files_is_refused(kind, tmp_path):
    kind.write(tmp_path / "f", range(10))
    iterator = kind.make(tmp_path / "f").global_shuffle(seed=1).iterator()
    next(iterator)
    state = iterator.state()
    kind.write(tmp_path / "f", range(10))
    for each in tmp_path.iterdir():
        os.utime(each, ns=(7, 7))

    with pytest.raises(StateError, match=r"global_shuffle: the files of .* have changed"):
        next(kind.make(tmp_path / "f").global_shuffle(seed=1).iterator(state))


def test_a_bad_line_costs_only_itself(tmp_path):
    lines = [json.dumps({"n": n}) for n in range(30)]
    lines[7] = lines[8] = "{"
    (tmp_path / "f").write_text("\n".join(lines))
    order = in_order(range(30), 4)
    dataset = Dataset.json_lines(tmp_path / "f").global_shuffle(seed=4)

    good = [int(e["n"]) for e in dataset.ignore_errors()]
    assert good == [n for n in order if n not in (7, 8)]
    with pytest.raises(TransformError, match=rf"json_lines\({tmp_path}/f\).*at byte 65 "):
        list(dataset)


def test_a_missing_value_names_its_row(tmp_path):
    pq.write_table(pa.table({"x": [0, 1, 2, None, 4]}), tmp_path / "f", row_group_size=3)
    dataset = Dataset.parquet(tmp_path / "f").global_shuffle(seed=1)

    assert sorted(int(e["x"]) for e in dataset.ignore_errors()) == [0, 1, 2, 4]
    with pytest.raises(TransformError, match=r"column 'x' has no value in row 0.*row group 1"):
        list(dataset)


def test_columns_and_functions_stay_as_they_are(tmp_path):
    INDEXED["parquet"].write(tmp_path / "f", range(20))
    dataset = Dataset.parquet(tmp_path / "f", columns=["text"]).map(lambda e: e["text"])

    assert list(dataset.global_shuffle(seed=2)) == [str(n) for n in in_order(range(20), 2)]
    assert list(dataset.take(5).global_shuffle(seed=2)) == [str(n) for n in in_order(range(5), 2)]


def in_two_frames(data):
    return zstd_module().compress(data[:700]) + zstd_module().compress(data[700:])


PACKED = {
    "gz": gzip.compress,
    "zst": zstd_module().compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "frames.zst": lambda data: (
        zstd_module().compress(data[:700]) + zstd_module().compress(data[700:])
    ),
}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", ["json_lines", "text_lines"])
def test_compressed_lines_have_the_order_of_plain_ones(name, suffix, tmp_path):
    kind = INDEXED[name]
    kind.write(tmp_path / "f", range(100))
    (tmp_path / f"f.{suffix}").write_bytes(PACKED[suffix]((tmp_path / "f").read_bytes()))

    dataset = kind.make(tmp_path / f"f.{suffix}").global_shuffle(seed=4)

    expected = [kind.number(each) for each in kind.make(tmp_path / "f").global_shuffle(seed=4)]
    assert [kind.number(each) for each in dataset] == expected
    iterator = dataset.iterator()
    begun = [kind.number(next(iterator)) for _ in range(70)]
    rest = [kind.number(each) for each in dataset.iterator(iterator.state())]
    assert begun + rest == expected


def test_what_has_no_index_is_refused_with_a_remedy(tmp_path):
    INDEXED["webdataset"].write(tmp_path / "f", range(20))
    (tmp_path / "f.gz").write_bytes(gzip.compress((tmp_path / "f").read_bytes()))
    INDEXED["parquet"].write(tmp_path / "p", range(20))

    with pytest.raises(DatasetError, match=r"f.gz is compressed, .* use shuffle\(buffer_size\)"):
        Dataset.webdataset(tmp_path / "f.gz").global_shuffle()
    with pytest.raises(DatasetError, match=r"parquet has no index"):
        Dataset.parquet(tmp_path / "p", filters=[("n", ">", 3)]).global_shuffle()
    with pytest.raises(MissingFile, match=rf"there is no file '{tmp_path}/none'"):
        Dataset.json_lines(tmp_path / "none").global_shuffle()


def test_many_files_are_open_at_a_time_and_all_are_closed(tmp_path):
    for i in range(40):
        INDEXED["json_lines"].write(tmp_path / f"{i}.x", range(10 * i, 10 * i + 10))
    before = len(os.listdir("/proc/self/fd"))
    iterator = Dataset.json_lines(str(tmp_path / "*.x")).global_shuffle(seed=1).iterator()
    next(iterator)

    assert before < len(os.listdir("/proc/self/fd")) <= before + 40

    assert len(list(iterator)) == 399
    iterator.close()
    del iterator
    assert len(os.listdir("/proc/self/fd")) <= before
