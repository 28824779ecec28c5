"""Stores of remote files: object stores and web servers by obstore, all others by fsspec.

A store sends one request at a time and never repeats it. Its errors are `StoreError`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar, cast

from penstock.file_parts import remote_version
from penstock.storage.retries import ReadTrouble
from penstock.storage.urls import Address, address_of, prefix_of, without_secrets

T = TypeVar("T")

CONNECT, SILENCE = 20, 60
"""Seconds for a connection, and seconds for which a server may send nothing."""

_STATUS = re.compile(r"status code: (\d{3})([^:\n]*)(?::\s*(.*))?", re.DOTALL)
_SAID = re.compile(r"<(Code|Message)>([^<]*)</")
_LONGEST = 300


class StoreError(Exception):
    """A request failed, by *trouble*. The text is what the store said, without credentials."""

    def __init__(self, trouble: ReadTrouble, text: str) -> None:
        super().__init__(without_secrets(text))
        self.trouble = trouble


class Reply(Protocol):
    """The answer to a request for a range: its first byte has come."""

    def read(self) -> bytes:
        """Return the rest of it.

        Raises:
            StoreError: when it is cut.
        """
        ...


class FileStore(Protocol):
    """Where one remote file lies."""

    bucket: str
    """The bucket or the server."""
    prefix: str
    """The part of the bucket that the store's limits of requests apply to; empty is all of it."""

    def info(self) -> Mapping[str, Any] | None:
        """Return what the store tells of the file, such as its size; None if there is none.

        Raises:
            StoreError: when it does not answer.
        """
        ...

    def get(self, start: int, stop: int, version: str) -> Reply:
        """Ask for bytes *start* to *stop* of *version*.

        Raises:
            StoreError: when there are none.
        """
        ...


def store_of(url: str) -> FileStore:
    """Return the store of *url*.

    Raises:
        ImportError: naming the package that is missing for it.
        ValueError: when no store is known for it.
    """
    address = address_of(url)
    if address is not None and by_obstore(address):
        return _ObjectStore(url, address)
    return _FsspecStore(url)


def pins(url: str) -> bool:
    """Return whether the store of *url* compares the version of a file with each answer."""
    address = address_of(url)
    return address is not None and by_obstore(address)


def by_obstore(address: Address) -> bool:
    """Return whether obstore reads *address*: it is installed, and fsspec has no settings for it.

    Settings for fsspec are the user's choice of it, and obstore does not know them.
    """
    if find_spec("obstore") is None:
        return False
    from fsspec.config import conf  # noqa: PLC0415  only remote files need it

    return not conf.get(address.scheme)


def is_remote(url: str) -> bool:
    """Return whether fsspec reads *url* over a network, where a request for a range is cheap."""
    from fsspec import get_filesystem_class  # noqa: PLC0415  only remote files need it
    from fsspec.asyn import AsyncFileSystem  # noqa: PLC0415

    scheme = url.partition("://")[0]
    try:
        return scheme == "hf" or issubclass(get_filesystem_class(scheme), AsyncFileSystem)
    except (ImportError, ValueError):
        return False  # whoever opens it says why


@lru_cache(maxsize=128)
def opened(store: str) -> Any:
    """Return the store of obstore whose URL is *store*. It takes credentials from the environment.

    Raises:
        StoreError: when its settings are incomplete.
    """
    from datetime import timedelta  # noqa: PLC0415

    from obstore.store import from_url  # noqa: PLC0415  an extra

    scheme, _, _ = store.partition("://")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    more: dict[str, Any] = {}
    if scheme in ("s3", "s3a"):
        if endpoint:
            more["endpoint"] = endpoint
        if provider := _profile():
            more["credential_provider"] = provider
    plain = scheme == "http" or endpoint.startswith("http://")
    client: dict[str, Any] = {
        "connect_timeout": f"{CONNECT}s", "read_timeout": f"{SILENCE}s", "timeout": "10m",
    }  # fmt: skip
    if plain:
        client["allow_http"] = True
    no_retries: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=SILENCE)}
    return asked(partial(from_url, store, client_options=client, retry_config=no_retries, **more))


def _profile() -> Any:
    """Return what reads ``~/.aws``, if boto3 is there and the environment has no credentials."""
    given = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE")
    if any(os.environ.get(name) for name in given) or find_spec("boto3") is None:
        return None
    import boto3  # noqa: PLC0415  an extra
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415  an extra

    session = boto3.Session()
    return Boto3CredentialProvider(session) if session.get_credentials() else None


class _ObjectStore:
    def __init__(self, url: str, address: Address) -> None:
        self._url = url
        self.bucket, self._key = address.store, address.key
        self.prefix = prefix_of(address)
        self._store = opened(address.store)

    def info(self) -> Mapping[str, Any] | None:
        import obstore  # noqa: PLC0415  an extra

        try:
            return dict(asked(partial(obstore.head, self._store, self._key)))
        except StoreError as exc:
            match exc.trouble:
                case ReadTrouble.MISSING:
                    return None
                case ReadTrouble.REFUSED if self._url.startswith("http"):
                    pass  # many servers do not answer HEAD, or do not tell a length
                case _:
                    raise
        return _FsspecStore(self._url).info()

    def get(self, start: int, stop: int, version: str) -> Reply:
        import obstore  # noqa: PLC0415  an extra

        options: dict[str, Any] = {"range": (start, stop)}
        if tag := _entity_tag(version):
            options["if_match"] = f'"{tag}"'
        found: Any = asked(
            partial(obstore.get, self._store, self._key, options=cast("Any", options))
        )
        return _ObjectReply(found, version, stop - start)


class _ObjectReply:
    def __init__(self, found: Any, version: str, nbytes: int) -> None:
        there = remote_version(found.meta)
        if not has_same_version(version, there):
            raise StoreError(ReadTrouble.CHANGED, f"the store has version {there} now")
        self._found, self._nbytes = found, nbytes

    def read(self) -> bytes:
        data = bytes(asked(self._found.bytes))
        return _whole(data, self._nbytes)


def has_same_version(wanted: str, found: str) -> bool:
    """Return whether a file that was listed as *wanted* is *found* now, as far as both tell."""
    # A listing may tell no more than the size: then only the size is compared.
    return found.startswith(wanted) if not wanted or wanted.endswith(".") else found == wanted


def _whole(data: bytes, nbytes: int) -> bytes:
    if len(data) != nbytes:
        raise StoreError(ReadTrouble.BROKEN, f"it sent {len(data):,} bytes instead of {nbytes:,}")
    return data


def _entity_tag(version: str) -> str:
    """Return the tag to ask a store for; empty if the version has none that it compares."""
    tag = version.partition(".")[2]
    if not tag or tag.startswith("W/"):
        return ""
    with suppress(ValueError):
        datetime.fromisoformat(tag)  # the time of the last change stands for a tag
        return ""
    return tag


def asked(call: Callable[[], T]) -> T:
    """Return what *call*, a request by obstore, returns."""
    try:
        return call()
    except Exception as exc:  # noqa: BLE001  each has its own kind
        error = StoreError(*_trouble(exc))
    raise error  # outside: the text of the cause may have signed URLs


def _trouble(exc: Exception) -> tuple[ReadTrouble, str]:
    text = str(exc)
    status = _STATUS.search(text)
    name = type(exc).__name__
    if name == "NotSupportedError" or "non-partial response" in text:
        return ReadTrouble.UNRANGED, "the server does not send ranges of the file"
    if status is not None:
        return trouble_of_status(int(status[1])), _answer(text)
    if isinstance(exc, FileNotFoundError):
        return ReadTrouble.MISSING, _answer(text)
    if "error sending request" in text:
        return ReadTrouble.BROKEN, "the server cannot be reached"
    if re.search("[:-] HTTP error", text):
        return ReadTrouble.BROKEN, _answer(text)
    return ReadTrouble.REFUSED, _answer(text)


def trouble_of_status(status: int) -> ReadTrouble:
    """Return what an HTTP status means for the next try."""
    match status:
        case 429 | 503:
            return ReadTrouble.SLOW_DOWN
        case 404 | 410:
            return ReadTrouble.MISSING
        case 412:
            return ReadTrouble.CHANGED
        case 401 | 403 | 407:
            return ReadTrouble.DENIED
        case 408:
            return ReadTrouble.BROKEN
    return ReadTrouble.BROKEN if status >= 500 else ReadTrouble.REFUSED


def _answer(text: str) -> str:
    """Return the sentence of an error of obstore: the status, and the code of the store."""
    text = text.partition("\n\nDebug source")[0]
    status = _STATUS.search(text)
    if status is None:
        return text[:_LONGEST]
    said = ": ".join(part for _, part in _SAID.findall(status[3] or ""))
    answer = f"the server answered {status[1]}{status[2].rstrip()}"
    return f"{answer} ({said[:_LONGEST]})" if said else answer


class _FsspecStore:
    """A file that fsspec reads. It compares no versions: see `pins`."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs  # noqa: PLC0415  only remote files need it

        self._fs, self._path = url_to_fs(url)
        self.bucket, self.prefix = url[: url.find("/", url.find("://") + 3)], ""

    def info(self) -> Mapping[str, Any] | None:
        self._fs.invalidate_cache(self._path)
        try:
            return dict(self._fs.info(self._path))
        except Exception as exc:  # noqa: BLE001  each file system has its own
            error = _of_fsspec(exc)
        if error.trouble is ReadTrouble.MISSING:
            return None
        raise error

    def get(self, start: int, stop: int, version: str) -> Reply:
        del version
        try:
            data = self._fs.cat_file(self._path, start=start, end=stop)
        except Exception as exc:  # noqa: BLE001  each file system has its own
            error = _of_fsspec(exc)
        else:
            return _FsspecReply(data, stop - start)
        raise error


class _FsspecReply:
    def __init__(self, data: bytes, nbytes: int) -> None:
        if len(data) > nbytes:
            raise StoreError(ReadTrouble.UNRANGED, "the server does not send ranges of the file")
        self._data, self._nbytes = data, nbytes

    def read(self) -> bytes:
        return _whole(self._data, self._nbytes)


def _of_fsspec(exc: Exception) -> StoreError:
    cause: BaseException | None = exc
    while cause is not None:
        status = getattr(cause, "status", None)
        if not isinstance(status, int):
            response = getattr(cause, "response", None)
            status = getattr(response, "status_code", None)
        if isinstance(status, int):
            reason = getattr(cause, "message", "")
            text = f"the server answered {status} {reason}".rstrip()
            return StoreError(trouble_of_status(status), text)
        told = isinstance(cause, (FileNotFoundError, PermissionError))
        if isinstance(cause, OSError) and not told:
            return StoreError(ReadTrouble.BROKEN, f"the server cannot be reached: {cause}")
        cause = cause.__cause__ or cause.__context__
    if isinstance(exc, FileNotFoundError):
        return StoreError(ReadTrouble.MISSING, str(exc))
    if isinstance(exc, PermissionError):
        return StoreError(ReadTrouble.DENIED, str(exc))
    network = isinstance(exc, (OSError, TimeoutError)) or "Client" in type(exc).__name__
    return StoreError(
        ReadTrouble.BROKEN if network else ReadTrouble.REFUSED, f"{type(exc).__name__}: {exc}"
    )
