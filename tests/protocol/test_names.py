"""Names from elsewhere: what is shown of them moves no cursor, what is kept of them is short."""

import pytest

from penstock.errors import Refused
from penstock.protocol.names import (
    LONGEST_ID,
    LONGEST_NAME,
    all_printable,
    check_name,
    fault_of_id,
    printable,
    printable_lines,
    scoped,
)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("ünï 漢字 plain", "ünï 漢字 plain"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202ereversed", r"\u202ereversed"),
        ("\udc80", r"\udc80"),
    ],
)
def test_what_moves_a_cursor_is_shown_as_an_escape(text, shown):
    assert printable(text) == shown


def test_a_traceback_keeps_its_lines_and_nothing_else():
    assert printable_lines("a\n\tb\x1b[2J\n") == "a\n    b\\x1b[2J\n"


def test_plain_data_are_made_printable_throughout():
    plain = {"\x1b": ["\x07", 1, None, {"a": "b\x00"}]}

    assert all_printable(plain) == {"\\x1b": ["\\x07", 1, None, {"a": "b\\x00"}]}


@pytest.mark.parametrize("name", ["x" * LONGEST_NAME, "ü" * (LONGEST_NAME // 2), ""])
def test_a_name_of_a_kibibyte_is_taken(name):
    check_name("job_name", name)


@pytest.mark.parametrize(
    "name",
    ["x" * (LONGEST_NAME + 1), "ü" * 513, "\x1b" * 10_000_000],
    ids=["a byte too many", "bytes and not characters count", "ten megabytes to escape"],
)
def test_a_longer_name_is_refused_by_a_message_that_is_short(name):
    with pytest.raises(
        Refused, match=r"job_name takes \d+ bytes, and a name may take 1024"
    ) as told:
        check_name("job_name", name)

    assert len(str(told.value)) < 1000
    assert "\x1b" not in str(told.value)


@pytest.mark.parametrize("given", ["corpus", "a b", "v1.2:ü", "dataset_id=x", "x" * LONGEST_ID])
def test_an_id_is_printable_text(given):
    assert fault_of_id(given) == ""


@pytest.mark.parametrize(
    "given",
    ["", " ", " a", "a ", "a\n", "a/b", "\x1b[2J", "ü" * LONGEST_ID, "x" * 10**6, 7, None, b"a"],
    ids=lambda given: repr(given)[:20],
)
def test_what_cannot_be_an_id_is_told_in_few_words(given):
    assert 0 < len(fault_of_id(given)) < 300


def test_no_two_ids_share_the_name_of_a_job():
    names = {scoped(i, job) for i in ("a", "b", "a b") for job in ("x", "b/x", "/x")}

    assert len(names) == 9
