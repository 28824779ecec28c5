"""Seals of definitions."""

import pytest

from penstock.credentials.entrance import SIZE, check_seal, seal
from penstock.errors import TamperedDefinition

KEY = b"k" * 32


def test_what_was_sealed_is_found_whole():
    made = seal(KEY, "d", b"code")

    assert len(made) == SIZE
    check_seal(KEY, "d", b"code", made)


@pytest.mark.parametrize(
    "key, dataset, definition, made",
    [
        (b"j" * 32, "d", b"code", seal(KEY, "d", b"code")),
        (KEY, "e", b"code", seal(KEY, "d", b"code")),
        (KEY, "d", b"evil", seal(KEY, "d", b"code")),
        (KEY, "dc", b"ode", seal(KEY, "d", b"code")),
        (KEY, "d", b"code", b""),
    ],
)
def test_what_was_changed_is_found_and_not_run(key, dataset, definition, made):
    with pytest.raises(TamperedDefinition, match="not run"):
        check_seal(key, dataset, definition, made)
