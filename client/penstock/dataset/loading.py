"""Finds the saved dataset that `Dataset.load` names, and compares it with the arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.analysis.array_spec import ArraySpec, Spec
from penstock.element import leaves
from penstock.errors import DatasetError, MissingFile, SaveIncomplete
from penstock.frames.columns import Alike, Scalars, Text, TextArrays
from penstock.frames.nest import nest_of
from penstock.graph.node import Node
from penstock.graph.traversal import DatasetBase
from penstock.ops.follow import Follow, check_goes_on
from penstock.ops.load import Load
from penstock.ops.map import Map
from penstock.ops.range import Range
from penstock.protocol.recording import SaveStage
from penstock.saved.chunk_reader import version_of
from penstock.saved.folder import folder_of
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import Manifest, SavedVersion, SavedVersions
from penstock.serialization.fingerprint import explain_difference


def found_version(path: str, at: int | None) -> SavedVersion | None:
    """Return the version *at* in the folder *path*, by default the newest; None if there is none.

    Raises:
        MissingFile: when there is no version *at*, or another dataset replaced it.
        DatasetError: when TensorFlow wrote the folder, or a manifest is malformed.
    """
    folder = folder_of("load", path)
    versions = SavedVersions("load", folder)
    newest = versions.latest()
    if newest is None and "snapshot.metadata" in folder.entries():
        raise DatasetError(
            f"load: TensorFlow's own save wrote {path}: read it with "
            "Dataset.from_tf(lambda: tf.data.Dataset.load(path)), and save that into another folder"
        )
    if at is None:
        return newest
    found = versions.read(at)
    if newest is not None and _is_deleted(found, newest):
        raise MissingFile(
            f"load: another dataset replaced version {at} of {path}, whose chunks are deleted: "
            "leave out at= for the newest version"
        )
    return found


def _is_deleted(version: SavedVersion, newest: SavedVersion) -> bool:
    """Return whether the dataset with *newest* has replaced *version*, and is complete."""
    now = newest.manifest
    has_replaced = now.stage in {SaveStage.COMPLETE, SaveStage.REMOVED}
    return has_replaced and now.save_id != version.manifest.save_id


def check_wanted(path: str, manifest: Manifest, spec: Spec, compression: Any) -> None:
    """Compare what a user gave with what *manifest* says; None is anything.

    Raises:
        DatasetError: naming both, when they differ.
    """
    written = manifest.options.compression
    if compression is not None and compression != written:
        raise DatasetError(
            f"load: compression is {compression!r}, but the files of {path} have {written!r}: give "
            "that, or leave it out"
        )
    if spec is None or not manifest.layout:
        return
    layout = SavedLayout.from_text(manifest.layout)
    parts = leaves(spec)
    if nest_of(spec) != layout.nest or not all(map(_fits, parts, layout.kinds)):
        found = layout.join([[_spec(kind)] for kind in layout.kinds], 1)[0]
        raise DatasetError(
            f"load: element_spec is {spec}, but the elements of {path} have {found}: give that, or "
            "leave it out"
        )


def check_repair(manifest: Manifest, repair: Any) -> None:
    """Check that *repair* is the dataset that was saved with *manifest*.

    Raises:
        DatasetError: saying how it differs, or why nothing can be repaired.
    """
    if not isinstance(repair, DatasetBase):
        raise DatasetError(f"load: repair must be the Dataset that was saved, not {repair!r:.60}")
    if difference := explain_difference(manifest, repair.node):
        raise DatasetError(f"load: repair is not the dataset that was saved: {difference}")
    if manifest.options.order != "split" or manifest.stage is not SaveStage.COMPLETE:
        raise DatasetError(
            "load: only a complete dataset can be repaired that was not saved with "
            'order="any", because of others nobody knows which elements a chunk has: leave out '
            "repair="
        )


def _spec(kind: Alike) -> ArraySpec:
    match kind:
        case Scalars():
            return ArraySpec((), kind.dtype)
        case Text():
            return ArraySpec((), kind.kind)
        case TextArrays():
            return ArraySpec((None,) * kind.ndim, str)
    return ArraySpec((None,) * kind.ndim, kind.dtype)


def _fits(spec: Spec, kind: Alike) -> bool:
    if not isinstance(spec, ArraySpec):
        return False
    wanted = _spec(kind)
    is_text = isinstance(kind, TextArrays) and spec.dtype is bytes
    return len(spec.shape) == len(wanted.shape) and (is_text or spec.dtype == wanted.dtype)


def loaded(
    path: str,
    found: SavedVersion | None,
    reader_func: Callable[[Any], Any] | None,
    repair: DatasetBase | None,
    *,
    at_newest: bool,
) -> Node:
    """Return the source of the elements of *found* in the folder *path*.

    Raises:
        MissingFile: when there is no version.
        SaveIncomplete: when the newest version is not the last one of its save.
        DatasetError: when *reader_func* returns no dataset, or *repair* is another one.
    """
    if found is None:
        raise MissingFile(
            f"load: {path} holds no saved dataset: see its path, or wait=True for one that is "
            "about to be written"
        )
    if at_newest:
        _check_complete(path, found)
    if repair is not None:
        check_repair(found.manifest, repair)
    now = found.manifest
    if reader_func is None:
        if now.pieces:  # later versions have their elements in other files
            return Follow(path, None, now.elements, now.save_id)
        names = map(folder_of("load", path).file, found.names)
        return Load(tuple(names), path, now.version, now.save_id, repair=repair)
    chunks = Map(Range(0, len(found.contents), 1), _Chunk(path, now.version, now.save_id, repair))
    made = reader_func(DatasetBase.concrete(chunks))
    if not isinstance(made, DatasetBase):
        raise DatasetError(
            f"load: reader_func must return a Dataset, not {made!r:.60}: such as "
            "lambda chunks: chunks.flat_map(lambda chunk: chunk)"
        )
    return made.node


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Makes a dataset of one chunk, by its number."""

    path: str
    version: int
    save_id: str
    repair: DatasetBase | None

    def __call__(self, number: Any) -> DatasetBase:
        """Return the elements of chunk *number*."""
        name = version_of(self.path, self.version, self.save_id).name(int(number))
        files = (folder_of("load", self.path).file(name),)
        node = Load(files, self.path, self.version, self.save_id, repair=self.repair)
        return DatasetBase.concrete(node)


def _check_complete(folder: str, found: SavedVersion) -> None:
    check_goes_on(folder, found)
    if found.manifest.stage is SaveStage.OPEN:
        raise SaveIncomplete(
            f"load: the save to {folder} has not ended: it has {found.manifest.elements:,} "
            f"elements. wait=True follows it, at={found.manifest.version} reads what there is; the "
            "same save continues it, if its process died"
        )
