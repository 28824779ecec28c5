"""What users of TensorFlow's `distributed_save` count on, in the order of its own tests.

Each test has both formats: what `Dataset.load` reads is the same.
"""

import re
import threading
from itertools import chain

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, Refused, SaveIncomplete, TransformError
from penstock.service import distributed_save
from penstock.wire.dispatcher import DispatcherClient
from tests.waiting import wait_until

pytest.importorskip("pyarrow")
pytest.importorskip("cramjam")

FORMS = pytest.mark.parametrize("form", ["tfrecord", "arrow"])


def saved(dataset, path, cluster, form="tfrecord", **options):
    distributed_save(dataset, str(path), cluster.target, format=form, **options).wait(60)
    return Dataset.load(path)


def numbers(dataset):
    return sorted(map(int, dataset))


@pytest.mark.quick(3)
@FORMS
@pytest.mark.parametrize("count", [0, 10, 1000])
def test_what_is_saved_is_loaded(cluster, tmp_path, form, count):
    assert numbers(saved(Dataset.range(count), tmp_path / "s", cluster, form)) == list(range(count))


@pytest.mark.quick(2)
@pytest.mark.parametrize("compression", [None, "AUTO", "GZIP", "SNAPPY"])
def test_each_compression_of_tensorflow_can_be_read(cluster, tmp_path, compression):
    loaded = saved(Dataset.range(10), tmp_path / "s", cluster, compression=compression)

    assert numbers(loaded) == list(range(10))


@pytest.mark.quick(1)
def test_what_tensorflow_opens_first_is_there_before_a_worker_begins(
    cluster, tmp_path, monkeypatch
):
    def gone(*_):
        raise Refused("no")

    monkeypatch.setattr(DispatcherClient, "start_recording", gone)
    with pytest.raises(Refused):
        saved(Dataset.range(10), tmp_path / "s", cluster)

    assert (tmp_path / "s/snapshot.metadata").exists()


@pytest.mark.quick(1)
@FORMS
def test_each_copy_of_a_repeated_dataset_is_saved(cluster, tmp_path, form):
    loaded = saved(Dataset.range(200).repeat(5), tmp_path / "s", cluster, form)

    assert numbers(loaded) == sorted([*range(200)] * 5)


@pytest.mark.quick(1)
@FORMS
def test_a_choice_of_datasets_is_read_while_it_is_saved(one_worker, tmp_path, form):
    letters = [Dataset.from_sequence([letter] * 5) for letter in "abc"]
    chosen = Dataset.choose_from_datasets(letters, Dataset.range(3).repeat())
    job = distributed_save(chosen, str(tmp_path / "s"), one_worker.target, format=form)

    assert list(Dataset.load(tmp_path / "s", wait=True, timeout=60)) == list("abc" * 5)
    job.wait(60)


@pytest.mark.quick(1)
@FORMS
def test_two_datasets_are_saved_at_once(cluster, tmp_path, form):
    jobs = [
        distributed_save(Dataset.range(n), str(tmp_path / f"s{n}"), cluster.target, format=form)
        for n in (700, 900)
    ]
    for job in jobs:
        job.wait(60)

    assert [numbers(Dataset.load(job.path)) for job in jobs] == [[*range(700)], [*range(900)]]


@pytest.mark.quick(1)
@FORMS
def test_a_reader_function_gets_a_dataset_for_each_chunk(cluster, tmp_path, form):
    saved(Dataset.range(40), tmp_path / "s", cluster, form, chunk_bytes=1)
    counts = []

    def reader(datasets):
        counts.append(datasets.cardinality())
        return datasets.shuffle(100).interleave(lambda chunk: chunk, cycle_length=4)

    assert numbers(Dataset.load(tmp_path / "s", reader_func=reader)) == list(range(40))
    assert counts[0] >= 2


@pytest.mark.quick(2)
@FORMS
@pytest.mark.parametrize(("mode", "copies"), [("parallel_epochs", 2), ("distributed_epoch", 1)])
def test_workers_load_it(cluster, tmp_path, form, mode, copies):
    loaded = saved(Dataset.range(300), tmp_path / "s", cluster, form, chunk_bytes=200)
    far = loaded.repeat(2).distribute(mode, cluster.target)

    assert numbers(far) == sorted([*range(300)] * 2 * copies)


@pytest.mark.quick(1)
@FORMS
def test_what_does_not_exist_is_not_found(tmp_path, form):
    with pytest.raises(MissingFile, match="holds no saved dataset"):
        Dataset.load(tmp_path / form)


@pytest.mark.quick(1)
@FORMS
def test_a_path_is_saved_once(cluster, tmp_path, form):
    saved(Dataset.range(9), tmp_path / "s", cluster, form)
    with pytest.raises(DatasetError, match="is already started or completed"):
        saved(Dataset.range(9), tmp_path / "s", cluster, form)


@pytest.mark.quick(1)
@FORMS
def test_who_loads_a_failed_save_gets_its_error(cluster, tmp_path, form):
    def bad(x):
        if x == 7:
            raise ValueError("not a number")
        return x

    job = distributed_save(
        Dataset.range(9).map(bad), str(tmp_path / "s"), cluster.target, format=form
    )
    with pytest.raises(TransformError, match="not a number"):
        job.wait(60)
    for wait in (False, True):
        with pytest.raises(SaveIncomplete, match="not a number"):
            list(Dataset.load(tmp_path / "s", wait=wait, timeout=60))
    if form == "tfrecord":
        wait_until(lambda: "not a number" in (tmp_path / "s" / "ERROR").read_text())
        assert not (tmp_path / "s" / "DONE").exists()


@pytest.mark.parametrize(
    ("path", "address", "why"),
    [
        ("", 1, "data_service_address must be a string, not 1"),
        ("", "", "data_service_address must not be empty"),
        ("", "localhost:1", "path must not be empty"),
        (7, "localhost:1", "path must be a string, not 7"),
    ],
)
def test_addresses_and_paths_are_judged_first(path, address, why):
    with pytest.raises(DatasetError, match=why):
        distributed_save(Dataset.range(9).repeat(), path, address)


def test_an_infinite_dataset_is_refused_and_leaves_nothing(cluster, tmp_path):
    with pytest.raises(DatasetError, match="Saving an infinite dataset is not allowed"):
        distributed_save(Dataset.range(9).repeat(), str(tmp_path / "s"), cluster.target)
    assert not (tmp_path / "s").exists()


@pytest.mark.quick(1)
@FORMS
def test_what_a_loader_expects_is_compared(cluster, tmp_path, form):
    saved(Dataset.range(9), tmp_path / "s", cluster, form)
    with pytest.raises(DatasetError, match="element_spec is .*float32.* but the elements .*int64"):
        Dataset.load(
            tmp_path / "s", element_spec=Dataset.from_sequence([1.0]).map(float32).element_spec
        )
    written = {"arrow": "zstd", "tfrecord": "SNAPPY"}[form]
    with pytest.raises(DatasetError, match=rf"compression is 'ZLIB', but .* have '{written}'"):
        Dataset.load(tmp_path / "s", compression="ZLIB")


def float32(x):
    return x.astype("float32")


@pytest.mark.quick(1)
@FORMS
def test_a_reader_that_began_before_the_save_gets_all_of_it(cluster, tmp_path, form):
    got, path = [], tmp_path / "s"
    reader = threading.Thread(
        target=lambda: got.extend(Dataset.load(path, wait=True, timeout=60)), daemon=True
    )
    reader.start()
    saved(Dataset.range(500).repeat(3), path, cluster, form, chunk_bytes=500)
    reader.join(60)

    assert numbers(got) == sorted([*range(500)] * 3)


@pytest.mark.slow
@pytest.mark.quick(1)
@FORMS
def test_saved_datasets_are_sampled_from_and_samples_are_saved(cluster, tmp_path, form):
    parts = [Dataset.range(n, n + 10) for n in (0, 10, 20)]
    loaded = [saved(part, tmp_path / f"s{i}", cluster, form) for i, part in enumerate(parts)]
    sampled = Dataset.sample_from_datasets(loaded, [0.5, 0.3, 0.2])

    assert numbers(sampled) == list(range(30))
    one = Dataset.sample_from_datasets(parts, [0.5, 0.3, 0.2])
    assert numbers(saved(one, tmp_path / "sampled", cluster, form)) == list(range(30))


@pytest.mark.quick(1)
@FORMS
def test_passes_over_what_is_saved_have_one_order_unless_the_reader_shuffles(
    cluster, tmp_path, form
):
    loaded = saved(Dataset.range(20), tmp_path / "s", cluster, form, chunk_bytes=8)
    first, second = (list(map(int, loaded)) for _ in range(2))
    assert first == second

    shuffled = Dataset.load(
        tmp_path / "s", reader_func=lambda chunks: chunks.shuffle(9).flat_map(lambda c: c)
    )
    assert len({tuple(map(int, shuffled)) for _ in range(10)}) > 1


@pytest.mark.slow
@FORMS
def test_servers_restart_and_the_save_is_exact(another, tmp_path, form):
    with another(workers=3) as cluster:
        job = distributed_save(
            Dataset.range(3000).map(slowly), str(tmp_path / "s"), cluster.target, format=form
        )
        for worker in cluster.workers:
            worker.kill()
            cluster.dispatcher.kill()
            cluster.dispatcher.restart()
            worker.restart()
        job.wait(120)

    assert numbers(Dataset.load(tmp_path / "s")) == list(range(3000))
    if form == "tfrecord":
        names = [file.name for file in (tmp_path / "s" / "chunks").iterdir()]
        assert all(re.fullmatch(r"chunk_0_\d+_\d+", name) for name in names)
        assert sum(int(name.rpartition("_")[2]) for name in names) == 3000


def slowly(x):
    import time  # noqa: PLC0415

    time.sleep(0.001)
    return x


@pytest.mark.slow
@FORMS
def test_workers_load_on_through_a_dispatchers_restart(another, tmp_path, form):
    with another(workers=2) as cluster:
        loaded = saved(Dataset.range(2000), tmp_path / "s", cluster, form, chunk_bytes=800)
        far = loaded.map(slowly).distribute("distributed_epoch", cluster.target, "train")
        with iter(far) as elements:
            got = [next(elements) for _ in range(50)]
            cluster.dispatcher.kill()
            cluster.dispatcher.restart()
            cluster.workers[0].kill()
            cluster.workers[0].restart()
            got = [*chain(got, elements)]

    assert numbers(got) == list(range(2000))
