"""How many units of a source a snapshot keeps together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.sharding import LEAST_CELL, MOST_CELLS, divided, split_providers
from penstock.dataset.dataset import Dataset
from penstock.graph.traversal import topological_order
from penstock.ops.snapshot import Snapshot

pytest.importorskip("pyarrow")


def cells(dataset):
    nodes = topological_order(divided(dataset.node))
    return [node.cell for node in nodes if isinstance(node, Snapshot)]


@given(count=st.integers(1, 10**7), size=st.integers(1, 1000), below=st.integers(1, 9))
def test_the_cells_depend_on_the_operators_before_the_snapshot_only(count, size, below):
    kept = Dataset.range(count).batch(below).snapshot("/snapshots")
    (cell,) = cells(kept)
    (alone,) = split_providers(kept.node)
    (batched,) = split_providers(kept.batch(size).node)

    assert cells(kept.map(abs).batch(size)) == cells(kept.enumerate()) == [cell]
    assert cell % below == 0 == cell // below & (cell // below - 1)  # a power of two
    assert cell >= LEAST_CELL * below or count <= cell
    assert count <= cell * MOST_CELLS
    assert alone.align % cell == batched.align % cell == 0


def test_files_that_make_one_element_each_are_kept_together_and_others_one_by_one():
    images = Dataset.list_files("/images/*", shuffle=False).map(len)
    lines = Dataset.text_lines("/texts/*.txt").map(len)
    texts = Dataset.list_files("/texts/*", shuffle=False).interleave(Dataset.text_lines)

    assert cells(images.snapshot("/snapshots")) == [LEAST_CELL]
    assert cells(lines.snapshot("/snapshots")) == cells(texts.snapshot("/snapshots")) == [1]


def test_packs_are_kept_by_so_many_documents_that_most_packs_are_full():
    documents = Dataset.range(10_000).map(lambda x: {"tokens": [x]})

    assert cells(documents.snapshot("/snapshots")) == [64]
    assert cells(documents.pack(8).snapshot("/snapshots")) == [2048]


def test_sources_in_lockstep_have_splits_with_whole_cells_of_both_snapshots():
    one = Dataset.range(10_000).map(abs).snapshot("/one")
    two = Dataset.range(10_000).snapshot("/two").batch(3).unbatch()
    (stream,) = split_providers(Dataset.zip((one, Dataset.range(10_000))).node)

    assert cells(one) == [64]
    assert stream.align % 64 == 0
    assert split_providers(two.node)[0].align % 64 == 0
