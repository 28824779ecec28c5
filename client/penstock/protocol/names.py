"""Names that users give, and others send: how long they may be, and how they are shown."""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import Refused
from penstock.protocol.malformed import glimpse

LONGEST_NAME: Final = 1024
"""Most bytes, in UTF-8, of a name of a job, save, dataset, worker or reader."""


def printable(text: str) -> str:
    """Return *text* with an escape for each character that could move a cursor or hide others.

    Logs, errors and tables show names from other processes through this function.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """Return *text* as `printable` does, but with its lines, as a traceback has them."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))


def all_printable(plain: Any) -> Any:
    """Return *plain* data, as JSON has them, with all text in them `printable`."""
    if isinstance(plain, str):
        return printable_lines(plain)
    if isinstance(plain, list):
        return [all_printable(part) for part in plain]
    if isinstance(plain, dict):
        return {printable(key): all_printable(part) for key, part in plain.items()}
    return plain


def too_long(text: str) -> bool:
    """Return whether *text* takes more bytes than a name may take."""
    return len(text) > LONGEST_NAME or (
        not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > LONGEST_NAME
    )


def check_name(what: str, text: str) -> None:
    """Refuse a name that is too long.

    Raises:
        Refused: showing how it begins.
    """
    if too_long(text):
        raise Refused(
            f"{what} takes {len(text.encode('utf-8', 'surrogatepass'))} bytes, and a name may "
            f"take {LONGEST_NAME}: {printable(text[:80])!r}...; give a shorter one"
        )


LONGEST_ID = 256
"""Most bytes of an id in UTF-8; a job's name is added to it."""


def fault_of_id(given: Any) -> str:
    """Return why *given* cannot be an id, as text for a message; empty if it can."""
    if not isinstance(given, str):
        return f"must be a string, not {given!r:.80}"
    if not given or given != given.strip() or not given.isprintable() or "/" in given:
        return (
            "must be printable characters, without '/' and without spaces around them, not "
            f"{given!r:.80}"
        )
    if len(given.encode("utf-8", "surrogatepass")) > LONGEST_ID:
        return f"may take {LONGEST_ID} bytes: {glimpse(given)} has {len(given)} characters"
    return ""


def scoped(dataset_id: str, job_name: str) -> str:
    """Return the full name of a job that reads by *dataset_id*; each id has its own job names."""
    return f"dataset_id={dataset_id}/{job_name}"
