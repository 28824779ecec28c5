"""The real folders of saved datasets, on a disk and in a store that fail at any call.

Both keep their files on a real file system, so that readers open them as they always do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from penstock.saved import folder as folders
from penstock.saved.folder import SaveFolder
from simulation.saved_stage import Stage

T = TypeVar("T")

TRIES = 6
"""How often a request to a store is repeated."""

LAG = 2.0
"""Seconds by which a listing may lag behind."""


def no_room() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def no_answer() -> OSError:
    return OSError(errno.EIO, "Input/output error")


class Busy(Exception):
    """The store did not answer, or it refused."""


class StageOs:
    """What `os` is to a local folder."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def link(self, old: Any, new: Any) -> None:
        self._stage.call(f"link {short(new)}", lambda: os.link(old, new), no_room)

    def fsync(self, fd: int) -> None:
        self._stage.call("fsync", lambda: None, no_room)

    def scandir(self, path: Any) -> Any:
        def perform() -> Any:
            with os.scandir(path) as found:
                return list(found)

        return self._stage.call(f"list {short(path)}", perform, no_answer)


def stage_path(stage: Stage) -> type[Path]:
    """Return what `Path` is to a local folder."""

    class StagePath(type(Path())):  # type: ignore[misc]
        def open(self, mode: str = "r", *more: Any, **named: Any) -> Any:
            if "x" in mode:
                stage.call(f"open {short(self)}", lambda: None, no_room)
            return super().open(mode, *more, **named)

        def replace(self, target: Any) -> Any:
            return stage.call(
                f"rename to {short(target)}",
                lambda: super(StagePath, self).replace(target),
                no_room,
            )

        def unlink(self, missing_ok: bool = False) -> None:
            stage.call(
                f"unlink {short(self)}",
                lambda: super(StagePath, self).unlink(missing_ok),
                no_answer,
            )

        def read_bytes(self) -> bytes:
            return stage.call(f"read {short(self)}", super().read_bytes, no_answer)

    return StagePath


def short(path: Any) -> str:
    return "/".join(Path(path).parts[-2:])


class StageFolder(folders._StoreFolder):
    """A folder in an object store, as it is, above a store that fails."""

    def __init__(self, stage: Stage, store: StageStore, path: str) -> None:
        SaveFolder.__init__(self, path)
        self._store, self._prefix, self._obstore, self._stage = None, "", store, stage

    def _sent(self, name: str, call: Callable[[], T]) -> T:
        for _ in range(TRIES):
            try:
                return call()
            except Busy:
                self._stage.sleep(self._stage.chance.uniform(0.1, 1.0))
        raise OSError(f"{name}: the store has failed for too long")


class StageStore:
    """What `obstore` is to a folder. Listings lie for `LAG` seconds, if it *lies*."""

    exceptions = SimpleNamespace(AlreadyExistsError=FileExistsError, PreconditionError=KeyError)

    def __init__(self, stage: Stage, root: Path, *, lies: bool) -> None:
        self._stage, self._root, self._lies = stage, root, lies
        self._changed: dict[str, tuple[float, bool]] = {}
        """When a key was last created or deleted, and which."""

    def _call(self, what: str, perform: Callable[[], T]) -> T:
        return self._stage.call(what, perform, Busy)

    def put(
        self, _: Any, key: str, data: Any, *, use_multipart: bool = False, mode: str = "overwrite"
    ) -> None:
        plain = bytes(data)
        self._call(f"put {key}", lambda: self._put(key, plain, mode))

    def _put(self, key: str, data: bytes, mode: str) -> None:
        path = self._root / key
        if mode == "create" and path.exists():
            raise FileExistsError(key)
        if not path.exists():
            self._changed[key] = self._stage.now, True
        path.parent.mkdir(parents=True, exist_ok=True)
        part = self._root.parent / "part"
        part.write_bytes(data)
        part.replace(path)

    def get(self, _: Any, key: str) -> Any:
        data = self._call(f"get {key}", (self._root / key).read_bytes)
        return SimpleNamespace(bytes=lambda: data)

    def copy(self, _: Any, key: str, new: str) -> None:
        def perform() -> None:
            self._put(new, (self._root / key).read_bytes(), "overwrite")

        self._call(f"copy {new}", perform)

    def delete(self, _: Any, key: str) -> None:
        def perform() -> None:
            if (self._root / key).exists():
                self._changed[key] = self._stage.now, False
            (self._root / key).unlink(missing_ok=True)

        self._call(f"delete {key}", perform)

    def list_with_delimiter(self, _: Any, prefix: str) -> Any:
        return self._call(f"list {prefix}", lambda: self._listed(prefix))

    def _listed(self, prefix: str) -> Any:
        chance, now = self._stage.chance, self._stage.now
        keys = {str(p.relative_to(self._root)) for p in self._root.rglob("*") if p.is_file()}
        for key, (when, there) in self._changed.items() if self._lies else ():
            if now < when + LAG and now < self._stage.peace and chance.random() < 0.5:
                self._stage.told("listing lags behind", key)
                (keys.discard if there else keys.add)(key)
        found = sorted(key for key in keys if key.startswith(prefix))
        rest = {key: key[len(prefix) :] for key in found}
        return {
            "objects": [{"path": key} for key in found if "/" not in rest[key]],
            "common_prefixes": sorted(
                {prefix + text.split("/")[0] for text in rest.values() if "/" in text}
            ),
        }
