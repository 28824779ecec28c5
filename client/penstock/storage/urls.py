"""Which store reads a URL, and how errors show the URL."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

CREDENTIALS = (
    "AWS_*",
    "AZURE_*",
    "GOOGLE_*",
    "GCS_*",
    "HF_*",
    "FSSPEC_*",
)
"""The environment variables, as patterns, in which stores look for credentials and settings."""

OBJECT_STORES = {
    "s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure",
    "abfss": "azure",
}  # fmt: skip
"""The schemes of object stores, and the extra for each."""

_WEB = frozenset({"http", "https"})
_SECRET = re.compile("KEY|SECRET|TOKEN|SAS|PASSWORD|SIGNATURE|CREDENTIALS")
_LEAST_SECRET = 6


@dataclass(frozen=True, slots=True)
class Address:
    """A URL that obstore can read: the URL of the store, and the key of the object in it."""

    store: str
    key: str
    scheme: str


def address_of(url: str) -> Address | None:
    """Return where *url* is for obstore; None if obstore does not read such a URL.

    That are URLs of other schemes and archives, HTTP with a user or a query, and keys that have
    empty or dotted segments.
    """
    scheme, marked, rest = url.partition("://")
    if not marked or "::" in url:
        return None
    host, _, key = rest.partition("/")
    if scheme in _WEB:
        parts = urlsplit(url)
        if parts.query or parts.fragment or "@" in parts.netloc:
            return None
        key = unquote(parts.path).removeprefix("/")
    elif scheme not in OBJECT_STORES or (scheme.startswith("abfs") and "@" not in host):
        return None
    if not key or any(part in ("", ".", "..") for part in key.split("/")) or not key.isprintable():
        return None
    return Address(f"{scheme.replace('gcs', 'gs')}://{host}", key, scheme)


def prefix_of(address: Address) -> str:
    """Return the first part of the key, below which an object store counts requests; or nothing."""
    first, below, _ = address.key.partition("/")
    return first if below and address.scheme in OBJECT_STORES else ""


def shown(url: str) -> str:
    """Return *url* without what may be a credential: a user and password, and a query."""
    url = re.sub(r"(https?://)[^/@\s]*@", r"\1", url)
    url = re.sub(r"(://)[^/@:\s]*:[^/@\s]*@", r"\1", url)
    return re.sub(r"(https?://[^\s?]*)\?\S*", r"\1?...", url)


def without_secrets(text: str) -> str:
    """Return *text*, which a store said, without credentials of the environment and of URLs."""
    for name, value in os.environ.items():
        if _SECRET.search(name.upper()) and len(value) >= _LEAST_SECRET:
            text = text.replace(value, "...")
    return shown(text)
