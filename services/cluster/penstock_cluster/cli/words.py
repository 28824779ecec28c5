"""Counts and versions as people read them."""

from __future__ import annotations

from penstock.protocol.types import Versions


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return *number* with its noun, which is *nouns* of several, else has an s."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def spoken(versions: Versions | None) -> str:
    """Return what a process runs, or nothing where that is not known."""
    return "" if versions is None else f"penstock {versions.penstock}, Python {versions.python}"
