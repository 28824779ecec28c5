"""The objects of a store that match a pattern, found by one listing."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from penstock.storage.fetching import persist
from penstock.storage.stores import asked, by_obstore, opened
from penstock.storage.urls import OBJECT_STORES, address_of


def lists(pattern: str) -> bool:
    """Return whether `objects` finds the files of *pattern*: obstore reads its store."""
    address = address_of(pattern)
    return address is not None and address.scheme in OBJECT_STORES and by_obstore(address)


def objects(pattern: str) -> dict[str, Mapping[str, Any]]:
    """Return the objects that match *pattern*, by URL, with their sizes and entity tags.

    Raises:
        PermissionError: when the store gives no permission.
        OSError: when it fails for too long.
    """
    address = address_of(pattern)
    if address is None:
        raise ValueError(f"{pattern!r} is no pattern of objects")
    from fsspec.utils import glob_translate  # noqa: PLC0415  only remote files need it

    steps = address.key.split("/")
    plain = next((i for i, step in enumerate(steps) if glob.has_magic(step)), len(steps) - 1)
    folder, deep = "/".join(steps[:plain]), plain < len(steps) - 1
    found = persist(pattern, lambda _: asked(partial(_listing, address.store, folder, deep=deep)))
    wanted = re.compile(glob_translate(address.key))
    base = pattern.removesuffix(address.key)
    return {base + one["path"]: one for one in found if wanted.match(one["path"])}


def _listing(store: str, folder: str, *, deep: bool) -> list[Mapping[str, Any]]:
    import obstore  # noqa: PLC0415  an extra

    there = opened(store)
    if not deep:
        return list(obstore.list_with_delimiter(there, folder)["objects"])
    return [one for chunk in obstore.list(there, folder) for one in chunk]
