"""The key of a snapshot: what its elements are made by, and of which files."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from weakref import WeakKeyDictionary

import msgspec

from penstock import files
from penstock.errors import DatasetError
from penstock.file_parts import WHOLE, FilePart
from penstock.graph.node import Node
from penstock.graph.traversal import topological_order
from penstock.protocol.definition import PipelineOutline
from penstock.protocol.splits import FilePattern
from penstock.saved.folder import SaveFolder, folder_of
from penstock.serialization.fingerprint import explain_difference, outline

log = logging.getLogger("penstock")

_FORMAT = "snapshot 1"
"""Another text here makes all snapshots invalid."""

_ABOUT = "snapshot.json"
"""The file that says what a key stands for."""

_MOST_NAMED = 256
"""Up to this number of files, the first one that differs is named."""

_MOST_LOOKED_AT = 32
"""The most other snapshots that a new one is compared with."""


class About(msgspec.Struct, frozen=True):
    """The pipeline and the files of one key."""

    outline: PipelineOutline
    """With the key in place of the fingerprint, and the versions of files."""
    made: float
    """When it was begun, in seconds since 1970."""


def key_of(node: Node, *, by_splits: bool) -> PipelineOutline:
    """Return the outline of *node*, with the key of its elements as the fingerprint.

    If workers divide the elements *by_splits*, each split has the versions of its own files.

    Raises:
        MissingFile: when a pattern of a source matches no file.
    """
    known = _outlines.get(node)
    if known is None:  # as it was at first, because functions may hold state
        known = _outlines[node] = outline(node)
    nodes = topological_order(node)
    found = [{} if by_splits else _versions(each) for each in nodes]
    digest = hashlib.blake2b(digest_size=16)
    for text in _texts(known.fingerprint, nodes, found, by_splits=by_splits):
        digest.update(text.encode("utf-8", "surrogateescape") + b"\0")
    stages = tuple(
        replace(stage, details={**stage.details, **_named(versions)})
        for stage, versions in zip(known.stages, found, strict=True)
    )
    return PipelineOutline(digest.hexdigest(), stages)


_outlines: WeakKeyDictionary[Node, PipelineOutline] = WeakKeyDictionary()


def _texts(
    fingerprint: str, nodes: list[Node], found: list[dict[str, str]], *, by_splits: bool
) -> Iterable[str]:
    yield from (_FORMAT, fingerprint, "by splits" if by_splits else "whole")
    for node, versions in zip(nodes, found, strict=True):
        for name, version in {**node.details, **versions}.items():
            yield from (name, version)


def _versions(node: Node) -> dict[str, str]:
    """Return the version of each file that *node* reads, by name."""
    pattern = None if node.inputs else node.units()
    if not isinstance(pattern, FilePattern):
        return {}
    names = files.listing(node.op, replace(pattern, part_bytes=WHOLE))
    return {part.name: part.version for part in map(FilePart.of, names)}


def _named(versions: Mapping[str, str]) -> dict[str, str]:
    if len(versions) > _MOST_NAMED:
        return {"listing": f"{len(versions):,} files, digest {files.digest(versions.values())}"}
    return {name: FilePart(name, version=text).told for name, text in versions.items()}


def part_key(units: range, names: tuple[str, ...], *, numbered: bool) -> str:
    """Return the key of the elements that are made of these *units* of a source.

    *names* are those of the units, if they are files. Then their numbers count only where the
    elements are *numbered*.
    """
    if not names:
        return f"{units.start}-{units.stop}"
    texts = [*map(_dated, names), f"{units.start}-{units.stop}" if numbered else ""]
    text = "\0".join(texts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _dated(name: str) -> str:
    """Return the *name* of a file or part with its version."""
    if FilePart.of(name).stop is not None:
        return name
    pattern = replace(files.literally((name,)), part_bytes=WHOLE)
    return "\0".join(files.listing("snapshot", pattern))


def announce(path: str, what: PipelineOutline) -> SaveFolder:
    """Return the folder of the key of *what* below *path*.

    If it is new, and *path* has that of another key, a warning says how the two differ.

    Raises:
        DatasetError: when nothing can be written there.
    """
    folder = folder_of("snapshot", f"{path}/{what.fingerprint}")
    if folder.read(_ABOUT) is not None:
        return folder
    others = _others(path, what)
    text = msgspec.json.encode(About(what, time.time()))
    try:
        is_new = folder.create(_ABOUT, text)
    except OSError as exc:
        raise DatasetError(
            f"snapshot: {folder.path} cannot be written ({exc}): give a path that this process may "
            "write, which workers share"
        ) from exc
    if is_new and others:
        newest = max(others, key=lambda other: other.made)
        log.warning(
            "snapshot: %s has nothing of this pipeline, and gets it now: %s. Each pipeline has a "
            "folder of its own there; delete those that are no longer read",
            path,
            explain_difference(newest, About(what, 0.0)),
        )
    return folder


def _others(path: str, what: PipelineOutline) -> list[About]:
    """Return what other keys below *path* stand for: those with the operators of *what*, if any."""
    above = folder_of("snapshot", path)
    texts = [above.read(f"{name}/{_ABOUT}") for name in above.entries()[:_MOST_LOOKED_AT]]
    found = [_about(text) for text in texts if text is not None]
    others = [each for each in found if each is not None]
    ops = [stage.op for stage in what.stages]
    alike = [each for each in others if [stage.op for stage in each.outline.stages] == ops]
    return alike or others


def _about(text: bytes) -> About | None:
    try:
        return msgspec.json.decode(text, type=About)
    except msgspec.MsgspecError:
        return None  # of a newer version
