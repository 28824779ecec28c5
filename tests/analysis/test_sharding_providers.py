"""Which streams of splits a pipeline's sources draw from, side by side and below zip."""

import pytest

from penstock.analysis.sharding import assignments, split_providers
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE
from penstock.ops.repeat import Repeat
from penstock.protocol.definition import ENDLESS, UNLISTED, SplitProviderSpec
from penstock.protocol.splits import FilePattern
from tests.analysis.bare_nodes import (
    FILES,
    Listing,
    OwnStream,
    Source,
    Through,
    batched,
    labels,
    mapped,
    numbers,
    zipped,
)

# --- one source, several sources ---


def test_a_source_has_a_stream_of_its_units():
    root = batched(mapped(numbers(10)), 3)

    assert split_providers(root) == (SplitProviderSpec((".0.0",), 10, align=3),)


def test_a_bare_source_is_the_root():
    assert split_providers(numbers(7)) == (SplitProviderSpec(("",), 7),)


def test_files_are_counted_when_they_are_listed():
    assert split_providers(mapped(Source(FILES))) == (SplitProviderSpec((".0",), UNLISTED, FILES),)


def test_sources_side_by_side_have_streams_of_their_own():
    root = Through((numbers(10), mapped(Source(FILES)), numbers(5)))

    streams = split_providers(root)

    assert streams == (
        SplitProviderSpec((".0",), 10),
        SplitProviderSpec((".1.0",), UNLISTED, FILES),
        SplitProviderSpec((".2",), 5),
    )
    assert assignments(streams) == {".0": 0, ".1.0": 1, ".2": 2}


def test_a_source_that_is_read_in_two_places_has_two_streams():
    shared = numbers(4)

    assert [stream.sources for stream in split_providers(Through((shared, shared)))] == [
        (".0",),
        (".1",),
    ]


def test_a_source_whose_units_are_not_its_elements_is_fine_alone():
    assert split_providers(Source(5, cardinality=50)) == (SplitProviderSpec(("",), 5),)


@pytest.mark.parametrize(
    ("counts", "passes"),
    [([3], 3), ([3, 4], 12), ([None], INFINITE), ([2, None], INFINITE), ([None, 2], INFINITE)],
)
def test_passes_are_the_product_of_the_repeats_around_a_source(counts, passes):
    root = numbers(10)
    for count in counts:
        root = mapped(Repeat(root, count))

    assert [stream.passes for stream in split_providers(root)] == [passes]


def test_a_repeat_of_no_times_reads_no_pass():
    assert [stream.passes for stream in split_providers(Repeat(Repeat(numbers(10), None), 0))] == [
        0
    ]


def test_a_repeat_counts_for_the_sources_below_it_only():
    root = Through((Repeat(numbers(3), 2), numbers(4)))

    assert [stream.passes for stream in split_providers(root)] == [2, 1]


def test_a_pipeline_with_an_input_that_is_not_split_runs_once_a_worker():
    halves = [Dataset.range(4), Dataset.range(6)]
    chosen = Dataset.choose_from_datasets(halves, Dataset.range(2).repeat()).map(abs)
    sampled = Dataset.sample_from_datasets(halves)

    assert split_providers(chosen.node) == (
        SplitProviderSpec((".0.1",), 4, once_a_worker=True),
        SplitProviderSpec((".0.2",), 6, once_a_worker=True),
    )
    assert not any(stream.once_a_worker for stream in split_providers(sampled.node))


def test_inner_datasets_of_a_function_draw_no_splits():
    root = mapped(numbers(3), lambda x: Dataset.range(x))

    assert split_providers(root) == (SplitProviderSpec((".0",), 3),)


def test_a_source_that_cannot_be_split_is_named_with_the_ways_out():
    with pytest.raises(DatasetError, match="^source cannot be split") as caught:
        split_providers(mapped(Source(None)))

    for way in ("parallel_epochs", "OFF", "from_sequence", "from_tensor_slices", "list_files"):
        assert way in str(caught.value)


# --- zip ---


def test_sources_below_zip_share_one_stream():
    root = mapped(zipped(numbers(10), mapped(mapped(numbers(7)))))

    assert split_providers(root) == (SplitProviderSpec((".0.0", ".0.1.0.0"), 7),)


def test_a_source_without_end_is_as_long_as_what_it_is_zipped_with():
    chance = Dataset.random()
    short, endless = Dataset.zip(Dataset.range(6), chance), Dataset.zip(chance, chance.map(abs))

    assert split_providers(short.batch(2).node) == (
        SplitProviderSpec((".0.0", ".0.1"), 6, align=2),
    )
    assert split_providers(endless.node) == (SplitProviderSpec((".0", ".1.0"), ENDLESS),)


def test_nested_zips_share_one_stream():
    root = zipped(zipped(numbers(10), numbers(20)), mapped(numbers(30)))

    assert split_providers(root) == (SplitProviderSpec((".0.0", ".0.1", ".1.0"), 10),)


def test_zips_side_by_side_have_streams_of_their_own():
    root = Through((zipped(numbers(3), numbers(4)), numbers(5)))

    assert [(s.sources, s.units) for s in split_providers(root)] == [
        ((".0.0", ".0.1"), 3),
        ((".1",), 5),
    ]


@pytest.mark.parametrize(
    ("sizes", "units"), [((12, 12), 12), ((10, 12), 12), ((10, 7), 8), ((1, 100), 4), ((0, 5), 0)]
)
def test_equal_batches_below_zip_align_the_splits(sizes, units):
    root = zipped(*(batched(numbers(size), 4) for size in sizes))

    (stream,) = split_providers(root)

    assert (stream.units, stream.align) == (units, 4)


def test_batches_that_drop_the_rest_end_the_pass_earlier():
    root = zipped(batched(numbers(11), 4, drop=True), batched(numbers(11), 4))

    (stream,) = split_providers(root)

    assert (stream.units, stream.align) == (8, 4)


def test_batches_may_come_in_steps_and_inside_nested_zips():
    pairs = batched(zipped(batched(numbers(24), 2), batched(numbers(24), 2)), 3)
    root = zipped(pairs, batched(mapped(numbers(20)), 6))

    assert split_providers(root) == (
        SplitProviderSpec((".0.0.0.0", ".0.0.1.0", ".1.0.0"), 24, align=6),
    )


def test_unequal_batches_below_zip_are_refused():
    root = zipped(batched(numbers(8), 4), numbers(8))

    with pytest.raises(DatasetError, match="zip: range is batched by 4 and range by 1"):
        split_providers(root)


def test_a_repeat_above_zip_repeats_the_pass():
    assert [s.passes for s in split_providers(Repeat(zipped(numbers(3), numbers(4)), 5))] == [5]


@pytest.mark.parametrize(
    ("make", "label"),
    [
        (lambda node: Repeat(node, 2), "repeat"),
        (lambda node: mapped(Through((node,))), "through"),
        (lambda node: Through((node, node)), "through"),
    ],
)
def test_what_does_not_keep_one_element_per_element_below_zip_is_named(make, label):
    with pytest.raises(DatasetError, match=f"^zip: {label} stands between") as caught:
        split_providers(zipped(numbers(3), make(numbers(3))))

    assert "zip the sources first" in str(caught.value)
    assert "OFF" in str(caught.value)


def test_a_source_that_cannot_be_split_is_named_below_zip_too():
    with pytest.raises(DatasetError, match="^source cannot be split"):
        split_providers(zipped(numbers(3), Source(None)))


@pytest.mark.parametrize("source", [Source(FILES), Source(5, cardinality=50)])
def test_units_of_many_elements_below_zip_are_refused(source):
    with pytest.raises(DatasetError, match="zip: what source is split by may hold any number"):
        split_providers(zipped(numbers(3), source))


def test_files_one_by_one_may_be_zipped_with_what_has_an_index():
    (stream,) = split_providers(zipped(numbers(3), mapped(Listing(FILES))))

    assert stream == SplitProviderSpec((".0", ".1.0"), UNLISTED, FILES)


@pytest.mark.parametrize("pattern", [FILES, FilePattern(("a/*.txt",), True, 1)])
def test_the_same_files_in_the_same_order_may_be_zipped(pattern):
    (stream,) = split_providers(zipped(Listing(pattern), Listing(pattern)))

    assert stream == SplitProviderSpec((".0", ".1"), UNLISTED, pattern)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FILES, FilePattern(("b/*.txt",), False, None)),
        (FilePattern(("a",), True, None), FilePattern(("a",), True, None)),
        (FilePattern(("a",), True, 1), FilePattern(("a",), True, 2)),
    ],
)
def test_files_in_other_orders_cannot_be_zipped(one, other):
    with pytest.raises(DatasetError, match="zip: two listing below it list their files"):
        split_providers(zipped(Listing(one), Listing(other)))


# --- operators that work on their own stream ---


def test_operators_on_their_own_stream_are_listed_once_sources_first():
    root = OwnStream((mapped(batched(batched(numbers(3), 2), 2)),))

    assert labels(root) == ["own"]
    assert labels(batched(Repeat(root, 2), 2)) == ["own", "batch"]


def test_a_pipeline_of_maps_has_no_operator_on_its_own_stream():
    assert labels(mapped(numbers(3))) == []
