"""`with_options`: what holds, for which operators, and which of several."""

from __future__ import annotations

import threading

import pytest

from penstock.analysis.visitation import Guarantee
from penstock.dataset.dataset import Dataset
from penstock.definition import decode, encode
from penstock.errors import DatasetError
from penstock.graph.traversal import options_of, walk
from penstock.options import AutocacheOptions, AutotuneOptions, Options
from penstock.protocol.definition import Definition
from penstock.serialization.fingerprint import fingerprint

LOOSE, STRICT = Options(deterministic=False), Options(deterministic=True)


def unordered(dataset):
    return [node.unordered for _, node in walk(dataset.node) if node.op == "map"]


def parallel(dataset, **kwargs):
    return dataset.map(lambda x: x, 2, **kwargs)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda ds: parallel(ds), [False]),
        (lambda ds: parallel(ds).with_options(LOOSE), [True]),
        (lambda ds: parallel(ds.with_options(LOOSE)), [True]),
        (lambda ds: parallel(ds, deterministic=True).with_options(LOOSE), [False]),
        (lambda ds: parallel(ds, deterministic=False).with_options(STRICT), [True]),
        (lambda ds: parallel(ds.with_options(LOOSE)).with_options(STRICT), [False]),
        (lambda ds: parallel(parallel(ds).with_options(LOOSE)), [True, True]),
        (lambda ds: parallel(ds).with_options(LOOSE).with_options(Options(threads=2)), [True]),
        (lambda ds: Dataset.zip((parallel(ds), ds)).batch(2).with_options(LOOSE), [True]),
    ],
)
def test_the_order_is_as_the_operator_says_and_else_as_the_last_options_do(make, expected):
    assert unordered(make(Dataset.range(5))) == expected


def test_a_pipeline_whose_elements_may_overtake_promises_less():
    exact = parallel(Dataset.range(5))

    assert exact.visitation().promise is Guarantee.EXACT_COPIES or exact.visitation().promise
    assert not exact.visitation().reasons
    assert exact.with_options(LOOSE).visitation().reasons


def test_interleave_follows_too():
    dataset = Dataset.range(5).interleave(lambda n: Dataset.range(n), 2, num_parallel_calls=2)

    assert not dataset.node.unordered
    assert dataset.with_options(LOOSE).node.upstream.unordered


def test_the_pipeline_before_is_left_as_it_is():
    before = parallel(Dataset.range(5))

    before.with_options(LOOSE)

    assert unordered(before) == [False]


def test_what_is_read_twice_is_still_one():
    shared = parallel(Dataset.range(5))

    both = Dataset.zip((shared, shared)).with_options(LOOSE)

    assert len({id(node) for _, node in walk(both.node) if node.op == "map"}) == 1


def test_later_options_override_earlier_ones_one_by_one():
    first = Options(True, 3, AutotuneOptions(True, 4, 500))
    second = Options(False, autotune=AutotuneOptions(cpu_budget=2))

    dataset = Dataset.range(5).with_options(first).map(abs).with_options(second).batch(2)

    assert options_of(dataset.node) == Options(False, 3, AutotuneOptions(True, 2, 500))


def test_they_travel_with_the_definition():
    dataset = parallel(Dataset.range(5)).with_options(Options(False, 3))

    arrived = decode(Definition.from_bytes(encode(dataset.node).to_bytes()))

    assert options_of(arrived) == Options(False, 3)
    assert arrived.upstream.unordered


def test_what_is_to_be_done_about_external_state_changes_no_fingerprint_and_no_state():
    plain, quiet = (
        Dataset.range(4).with_options(Options(threads=3, external_state_policy=policy))
        for policy in (None, "ignore")
    )
    with iter(plain) as elements:
        next(elements)
        state = elements.state()

    assert fingerprint(plain.node) == fingerprint(quiet.node) == "f7d329cea52f7028f3588bb4a8eb11a8"
    assert list(quiet.iterator(state)) == [1, 2, 3]


def test_a_seed_changes_no_fingerprint_so_that_runs_of_several_seeds_share_a_definition():
    plain, seeded = (Dataset.range(4).with_options(Options(seed=seed)) for seed in (None, 7))

    assert fingerprint(plain.node) == fingerprint(seeded.node)


def test_no_operator_has_more_threads_than_they_say():
    names = set()

    def note(x):
        names.add(threading.current_thread().name)
        names.add(threading.get_ident())
        return x

    list(Dataset.range(200).map(note, 8).with_options(Options(threads=2)))

    assert 2 <= len(names) <= 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Dataset.range(3).with_options(None),
            "options must be penstock.options.Options, not None",
        ),
        (lambda: Options(deterministic=1), "deterministic must be True, False or None, not 1"),
        (lambda: Options(threads=0), "threads must be an integer of at least 1, not 0"),
        (lambda: Options(seed=-1), "seed must be an integer of at least 0, not -1"),
        (lambda: Options(seed="7"), "seed must be an integer of at least 0, not '7'"),
        (lambda: Options(autotune=True), "autotune must be AutotuneOptions, not True"),
        (
            lambda: Options(external_state_policy="WARN"),
            "external_state_policy must be 'warn', 'ignore', 'fail' or None, not 'WARN'",
        ),
        (lambda: AutotuneOptions(enabled="yes"), "autotune.enabled must be True, False or None"),
        (lambda: AutotuneOptions(cpu_budget=0), "autotune.cpu_budget must be an integer"),
        (lambda: AutotuneOptions(ram_budget=1.5), "autotune.ram_budget must be an integer"),
    ],
)
def test_bad_options_are_named(make, words):
    with pytest.raises(DatasetError, match=words):
        make()


def test_autocache_does_not_change_a_fingerprint_and_its_folder_is_absolute(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    plain = Dataset.range(3).map(lambda x: x)
    kept = Options(autocache=AutocacheOptions(path="kept", max_bytes=5, passes=2))

    dataset = plain.with_options(kept)

    assert fingerprint(dataset.node) == fingerprint(plain.with_options(Options()).node)
    assert options_of(dataset.node).autocache.path == str(tmp_path / "kept")


def test_autocache_refuses_a_store_that_cannot_create_files_atomically():
    pytest.importorskip("pyarrow")
    with pytest.raises(DatasetError, match="autocache: memory://kept is in no store"):
        Dataset.range(3).with_options(Options(autocache=AutocacheOptions(path="memory://kept")))
