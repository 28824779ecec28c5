"""The folder of a saved dataset, local or in an object store: files that are whole or not there.

A name is relative to the folder. `create` is atomic: of several processes that create one name, one
succeeds. Everything that decides who may write rests on it.
"""

from __future__ import annotations

import errno
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import DatasetError
from penstock.storage.fetching import persist
from penstock.storage.stores import asked, by_obstore, opened
from penstock.storage.urls import address_of
from penstock.stored_file import is_url

T = TypeVar("T")

_ONE_REQUEST = 1 << 30
"""The most bytes that are sent to a store in one request."""

_PART = ".part"
"""The end of names of files that are being written."""


class SaveFolder(ABC):
    """Where the files of one saved dataset are."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Turn an `OSError` of writing the file *name* into a `DatasetError`."""
        try:
            yield
        except OSError as exc:
            raise DatasetError(
                f"save: {self.file(name)} cannot be written ({exc}): make room for it or mend the "
                "folder, and call save again, which continues"
            ) from exc

    @contextmanager
    def reading(self, op: str, name: str) -> Iterator[None]:
        """Turn an `OSError` of reading the file or folder *name* into a `DatasetError`."""
        try:
            yield
        except OSError as exc:
            raise DatasetError(
                f"{op}: {self.file(name)} cannot be read ({exc}): see who may read it, and whether "
                "its disk or store works"
            ) from exc

    def file(self, name: str) -> str:
        """Return the path or URL of the file *name*, as sources of files take it."""
        return f"{self.path}/{name}"

    @abstractmethod
    def write(self, name: str, data: Any) -> None:
        """Write the file *name*; it replaces one that is there."""

    @abstractmethod
    def create(self, name: str, data: Any) -> bool:
        """Write the file *name* if there is none; return whether there was none."""

    def check_creates(self, name: str) -> None:  # noqa: B027  a disk always can
        """Check that `create` works here, with a file *name* that is deleted again.

        Raises:
            DatasetError: when the store replaces an object that it should only create.
        """

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return what the file *name* has; None if there is none."""

    @abstractmethod
    def names(self, under: str) -> list[str]:
        """Return the names of the files right below the folder *under*, sorted."""

    @abstractmethod
    def copy(self, name: str, new: str) -> None:
        """Give the file *name* a second name; it replaces a file that has that."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete the file *name*, if it is there."""

    @abstractmethod
    def entries(self) -> list[str]:
        """Return the names of all files and folders right below; one name if it is a file."""


def folder_of(op: str, path: str) -> SaveFolder:
    """Return the folder at *path*: an absolute path, or a URL.

    Raises:
        DatasetError: when the store of a URL has no atomic creation of files that is known here.
    """
    if not is_url(path):
        return _LocalFolder(path)
    address = address_of(f"{path.rstrip('/')}/x")
    if address is None or path.startswith("http") or not by_obstore(address):
        raise DatasetError(
            f"{op}: {path} is in no store that can create a file only if there is none: give a "
            "local path, or a URL that begins with s3://, gs:// or az:// (with the extra of it, "
            "and without settings of fsspec for it)"
        )
    return _StoreFolder(path, opened(address.store), address.key.removesuffix("x").rstrip("/"))


def _part_of(path: Path) -> Path:
    """Return a name for the file *path* while it is written."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{_PART}")


def _make_folder(path: Path) -> None:
    """Make the folder *path* and those above it, so that a crash of the host loses none."""
    try:
        path.mkdir()
    except FileNotFoundError:
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
    except FileExistsError:
        return
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Wait until the names in *folder* are on the disk, where the file system can say so."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(found)
    except OSError as exc:
        if exc.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(found)


class _LocalFolder(SaveFolder):
    """A folder on a disk. When a call returns, a crash of the host cannot undo it."""

    def write(self, name: str, data: Any) -> None:
        part = self._written(name, data)
        part.replace(self.file(name))
        _sync(part.parent)

    def create(self, name: str, data: Any) -> bool:
        part = self._written(name, data)
        try:
            os.link(part, self.file(name))  # unlike a rename, it fails where there is one
        except FileExistsError:  # also if the file is this one, and the first answer was lost
            return part.samefile(self.file(name))
        else:
            return True
        finally:
            part.unlink(missing_ok=True)
            _sync(part.parent)

    def _written(self, name: str, data: Any) -> Path:
        path = Path(self.file(name))
        _make_folder(path.parent)
        part = _part_of(path)
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        return part

    def read(self, name: str) -> bytes | None:
        try:
            return Path(self.file(name)).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, under: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.file(under)) if entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def copy(self, name: str, new: str) -> None:
        path = Path(self.file(new))
        _make_folder(path.parent)
        part = _part_of(path)
        os.link(self.file(name), part)
        part.replace(path)
        part.unlink(missing_ok=True)  # a rename onto another name of the same file does nothing
        _sync(path.parent)

    def delete(self, name: str) -> None:
        Path(self.file(name)).unlink(missing_ok=True)

    def entries(self) -> list[str]:
        try:
            return [path.name for path in Path(self.path).iterdir()]
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            return [Path(self.path).name] if Path(self.path).exists() else []


class _StoreFolder(SaveFolder):
    """A folder in an object store. Requests that failed are sent again."""

    def __init__(self, path: str, store: Any, prefix: str) -> None:
        import obstore  # noqa: PLC0415  an extra

        super().__init__(path)
        self._store, self._prefix, self._obstore = store, prefix, obstore

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _sent(self, name: str, call: Callable[[], T]) -> T:
        """Return what the request *call* about the file *name* returns."""
        return persist(self.file(name), lambda _: asked(call))

    def write(self, name: str, data: Any) -> None:
        view = memoryview(data).cast("B")
        put = partial(self._obstore.put, use_multipart=len(view) > _ONE_REQUEST)
        self._sent(name, lambda: put(self._store, self._key(name), view))

    def create(self, name: str, data: Any) -> bool:
        def put() -> bool:
            try:
                self._obstore.put(
                    self._store, self._key(name), text, mode="create", use_multipart=False
                )
            except (there.AlreadyExistsError, there.PreconditionError):
                return False
            return True

        text, there = bytes(data), self._obstore.exceptions
        # A request that seemed to fail may have been carried out: then the file is what it sent.
        return self._sent(name, put) or self.read(name) == text

    def check_creates(self, name: str) -> None:
        with self.writing(name):
            self.create(name, b"first")
            is_replaced = self.create(name, b"second")
            self.delete(name)
        if is_replaced:
            raise DatasetError(
                f"save: the store of {self.path} ignores If-None-Match, so two processes could "
                "write one version: use a store or a newer version of it that has conditional "
                "writes, or a local path"
            )

    def read(self, name: str) -> bytes | None:
        try:
            return self._sent(name, lambda: bytes(self._get(name)))
        except FileNotFoundError:
            return None

    def _get(self, name: str) -> Any:
        return self._obstore.get(self._store, self._key(name)).bytes()

    def names(self, under: str) -> list[str]:
        prefix = f"{self._key(under).rstrip('/')}/"
        return sorted(one["path"].removeprefix(prefix) for one in self._listed(prefix)["objects"])

    def _listed(self, prefix: str) -> Any:
        return self._sent(".list", lambda: self._obstore.list_with_delimiter(self._store, prefix))

    def copy(self, name: str, new: str) -> None:
        copy = partial(self._obstore.copy, self._store, self._key(name), self._key(new))
        self._sent(name, copy)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._sent(name, partial(self._obstore.delete, self._store, self._key(name)))

    def entries(self) -> list[str]:
        prefix = f"{self._prefix}/" if self._prefix else ""
        found = self._listed(prefix)
        paths = [*(one["path"] for one in found["objects"]), *found["common_prefixes"]]
        return [path.removeprefix(prefix).rstrip("/") for path in paths]
