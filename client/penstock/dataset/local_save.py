"""A save in this process: where it begins, and the loop that commits versions."""

from __future__ import annotations

import secrets
import threading

import msgspec

from penstock.dataset.block_reader import BlockReader
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import topological_order
from penstock.protocol.recording import SaveStage
from penstock.saved.folder import folder_of
from penstock.saved.inputs import inputs_of
from penstock.saved.manifest import (
    FOLDER,
    Manifest,
    SavedVersion,
    SavedVersions,
    SaveOptions,
)
from penstock.saved.recording import Recording, position_of
from penstock.serialization.fingerprint import explain_difference, outline


def begun(
    node: Node, path: str, options: SaveOptions, *, overwrite: bool, hosted: bool = False
) -> SavedVersion:
    """Return the version of the dataset at *path* after which saving *node* goes on.

    If the save is *hosted* by a worker, one that is open stays with the process that commits it.

    Raises:
        DatasetError: when *node* is infinite, or the folder holds something else.
    """
    if node.cardinality == INFINITE:
        raise DatasetError("save: the dataset is infinite: take a part of it, as take(1_000_000)")
    folder, pipeline = folder_of("save", path), outline(node)
    versions = SavedVersions("save", folder)
    fresh = Manifest(version=1, save_id=secrets.token_hex(8), outline=pipeline, options=options)
    latest = versions.latest()
    if latest is None:
        if others := sorted({*folder.entries()} - {FOLDER}):  # a saver that died may have left that
            raise DatasetError(
                f"save: {path} holds files that are no saved dataset, such as {others[0]!r}: give "
                "a new folder"
            )
        folder.check_creates(f"{FOLDER}/.probe-{secrets.token_hex(4)}")
        if versions.commit(first := SavedVersion(_with_inputs(fresh, node), ())):
            return first
        latest = versions.latest() or first  # another process began at the same moment
    now = latest.manifest
    is_same = now.outline.fingerprint == pipeline.fingerprint and now.options == options
    is_another_kind = _is_at_a_job(latest) not in (None, hosted)
    if is_same and not (overwrite and (is_another_kind or now.stage is SaveStage.COMPLETE)):
        if is_another_kind:
            raise DatasetError(
                f"save: {path} was begun by {'Dataset.save' if hosted else 'penstock.service.save'}"
                f", which alone can continue it: call that, or {_CURE}"
            )
        is_open = hosted and now.stage is SaveStage.OPEN
        return latest if is_open else taken_over(versions, latest, path)
    if not overwrite:
        raise DatasetError(f"save: {path} has another dataset: {_difference(now, fresh)}; {_CURE}")
    fresh = _with_inputs(fresh, node)
    while not versions.commit(again := latest.replaced_by(fresh)):  # the old save goes on
        latest = versions.latest(latest) or latest
        if latest.manifest.save_id != now.save_id:
            raise _taken(path)
    return again


def _is_at_a_job(version: SavedVersion) -> bool | None:
    """Return whether saving goes on in a job of workers; None if it may begin anew."""
    state = position_of(version).state
    return "jobs" in state if isinstance(state, dict) else None


def _with_inputs(manifest: Manifest, node: Node) -> Manifest:
    sources = [(one.op, one.units()) for one in topological_order(node) if not one.inputs]
    return msgspec.structs.replace(manifest, inputs=inputs_of(sources))


def taken_over(versions: SavedVersions, latest: SavedVersion, path: str) -> SavedVersion:
    """Return a version after *latest* that this process commits; it stops all other savers."""
    save_id = latest.manifest.save_id
    while latest.manifest.stage is not SaveStage.COMPLETE:
        following = latest.following((), stage=SaveStage.OPEN, error="")
        if versions.commit(following):
            return following
        latest = versions.latest(latest) or latest
        if latest.manifest.save_id != save_id:
            raise _taken(path)
    return latest


def _taken(path: str) -> DatasetError:
    return DatasetError(f"save: another process writes {path} at this moment: {_CURE}")


_CURE = "give another path, or overwrite=True to replace it"


def _difference(now: Manifest, wanted: Manifest) -> str:
    if why := explain_difference(now, wanted):
        return why
    for name in SaveOptions.__struct_fields__:
        there, here = getattr(now.options, name), getattr(wanted.options, name)
        if there != here:
            return f"its {name} is {there!r}, and not {here!r}"
    return "it is complete"


class LocalSave:
    """A save that this process commits.

    If the process dies, the same call continues the save after its last version.

    Args:
        receipts: what gives the receipts of elements that are written.
        path: the folder.
        version: the version after which saving goes on.
    """

    def __init__(self, receipts: Node, path: str, version: SavedVersion) -> None:
        self._receipts = receipts
        self._recording = Recording(folder_of("save", path), version)
        self._cancelled = threading.Event()
        self._reading: BlockReader | None = None

    @property
    def version(self) -> SavedVersion:
        """The last one that is committed."""
        return self._recording.version

    def manifest(self) -> Manifest:
        """Return the manifest of the last version."""
        return self.version.manifest

    def run(self) -> None:
        """Commit all versions.

        Raises:
            PenstockError: the error at which it stopped.
        """
        if self.manifest().stage is SaveStage.COMPLETE:
            self._recording.clean()  # of what a crash has left
            return
        state = position_of(self.version).state
        with BlockReader(self._receipts, state) as self._reading:
            self._recording.run(self._reading, self._cancelled.is_set)

    def cancel(self) -> None:
        """Have `run` stop, and commit that."""
        self._cancelled.set()
        if (reading := self._reading) is not None:
            reading.close()
