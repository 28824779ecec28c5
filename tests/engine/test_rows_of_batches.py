"""Rows of batches that a pipeline made."""

from __future__ import annotations

import numpy as np

from penstock.engine.rows import BatchTable, Rows, rows

BATCH = {"n": np.arange(6), "rows": np.arange(12).reshape(6, 2)}


def test_rows_do_not_keep_the_batch_in_memory():
    elements = Rows(BatchTable(BATCH), range(2, 4)).elements()

    assert [element["n"] for element in elements] == [2, 3]
    assert [element["rows"].tolist() for element in elements] == [[4, 5], [6, 7]]
    assert all(element["rows"].base is None for element in elements)


def test_any_rows_can_be_had_in_any_order():
    chosen = Rows(BatchTable(BATCH), np.array([5, 0]))

    assert [element["n"] for element in chosen.elements()] == [5, 0]
    assert chosen.stacked()["rows"].tolist() == [[10, 11], [0, 1]]
    assert [row["n"] for row in Rows(BatchTable(BATCH), range(0, 6, 4))] == [0, 4]


def test_rows_of_text_are_text():
    assert rows(np.array(["a", "b"], object), 0, 2) == ["a", "b"]
