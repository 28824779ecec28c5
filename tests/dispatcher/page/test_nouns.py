"""Numbers with their nouns."""

from penstock_dispatcher.page.nouns import counted


def test_numbers_have_their_nouns():
    assert [counted(n, "task") for n in (0, 1, 1200)] == ["0 tasks", "1 task", "1,200 tasks"]
