"""``penstock errors``: what an error means and what to do, without a network."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import penstock_cluster
from penstock.errors import DatasetError
from penstock_cluster.cli.client import screen

IN_WHEEL = Path(penstock_cluster.__file__).with_name("errors.md")
IN_SOURCES = Path(penstock_cluster.__file__).parents[3] / "docs" / "reference" / "errors.md"
"""A wheel has a copy of the page; an editable installation has the page itself."""


def show_error(name: str | None) -> None:
    """Print the section on the error *name*; without a name, the table of all errors.

    Raises:
        DatasetError: when there is no such error, with the names that are most like it.
    """
    page = page_text()
    if name is None:
        table = (line for line in page.splitlines() if line.startswith("|"))
        screen.print("\n".join(table), markup=False)
        return
    found = sections(page)
    wanted = name.rpartition(".")[2].lower()
    if wanted not in found:
        like = difflib.get_close_matches(wanted, found, n=3)
        names = ", ".join(found[one].partition("\n")[0] for one in like)
        hint = f"did you mean {names}?" if like else "`penstock errors` lists all of them"
        raise DatasetError(f"Penstock has no error {name!r}: {hint}")
    screen.print(found[wanted], markup=False, soft_wrap=True)


def page_text() -> str:
    """Return the page on errors, of the wheel or of the sources."""
    return (IN_WHEEL if IN_WHEEL.exists() else IN_SOURCES).read_text()


def sections(page: str) -> dict[str, str]:
    """Return the section on each error, by the error's name in small letters."""
    parts = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    texts = (re.split(r"^## ", part, flags=re.MULTILINE)[0].strip() for part in parts)
    return {text.partition("\n")[0].strip().lower(): text for text in texts}
