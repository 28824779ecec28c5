"""What tuned operators may use together."""

from __future__ import annotations

from penstock.autotune.budget import Budget


def test_buffers_share_the_memory():
    budget = Budget(1, 1000)
    one, other = object(), object()

    left = [budget.note(one, 600), budget.note(other, 600), budget.note(one, 100)]
    budget.forget(one)

    assert left == [400, -200, 300]
    assert budget.note(other, 0) == 1000
