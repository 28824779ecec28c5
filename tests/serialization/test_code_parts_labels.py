"""Plain values as bytes that are equal in every process."""

import itertools
import os
import subprocess
import sys

import pytest

from penstock.serialization.code_parts import named, plain, text

VALUES = [1, 1.0, True, None, "1", b"1", (1,), [1], {"a": 1}, -0.0, 0.0, ..., ("a", ("b",))]


def test_what_differs_in_value_or_type_has_another_label():
    labels = [plain(value) for value in VALUES]

    assert all(a != b for a, b in itertools.combinations(labels, 2))


def test_the_order_of_keys_is_no_part_of_a_dict():
    assert plain({"a": 1, "b": 2}) == plain({"b": 2, "a": 1})


@pytest.mark.parametrize("value", [{1}, object(), [[[[[[1]]]]]], type("T", (tuple,), {})()])
def test_what_is_not_plain_or_too_deep_has_no_label(value):
    with pytest.raises(ValueError, match="not plain"):
        plain(value)


def test_labels_do_not_depend_on_hash_seeds():
    code = (
        "from penstock.serialization.code_parts import plain;"
        "print(plain({'a': 1, 'b': (2, 'x')}).hex())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_words_of_a_label_are_told_apart_and_may_hold_any_character():
    assert text("ab", "c") != text("a", "bc")
    assert text("\ud800")


def test_named_parts_come_in_the_order_of_their_names():
    assert named("global", {"b": 1, "a": 2}) == [("global 'a'", 2), ("global 'b'", 1)]
