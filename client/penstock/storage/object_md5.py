"""Decides whether the bytes of an object are the object's own, by the MD5 that its store tells.

The entity tag of an object in S3 is the MD5 of its bytes, if the object was uploaded in one piece.
Objects that S3 encrypts with a key of KMS or of the user have another tag of the same form. obstore
does not give the headers of an answer that tell these kinds apart, so an object whose MD5 differs
is read once more. Two answers with the same bytes mean that the tag is no MD5.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html
"""

from __future__ import annotations

import hashlib
import re
from enum import Enum, auto

from penstock.storage.part_key import PartKey

_MD5 = re.compile("[0-9a-f]{32}")
_OF_S3 = ("s3://", "s3a://")


class Md5Verdict(Enum):
    """Whether an answer has the bytes of its object."""

    RIGHT = auto()
    AGAIN = auto()
    """The MD5 is another one: the object must be read again."""
    NO_MD5 = auto()
    """Two answers agree, so the tag is no MD5. The bytes are as good as these of any store."""


class ObjectMd5:
    """The check of one object that is read by one request, repeated as long as it is `AGAIN`."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._before = ""

    @classmethod
    def of(cls, key: PartKey) -> ObjectMd5 | None:
        """Return the check of the range *key*; None if its store tells no MD5 of these bytes."""
        size, _, tag = key.version.partition(".")
        whole = key.start == 0 and str(key.stop) == size
        if not whole or not key.url.startswith(_OF_S3) or not _MD5.fullmatch(tag):
            return None
        return cls(tag)

    def verdict(self, data: bytes) -> Md5Verdict:
        """Return whether *data*, which an answer has, are the bytes of the object."""
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found == self._tag:
            return Md5Verdict.RIGHT
        before, self._before = self._before, found
        return Md5Verdict.NO_MD5 if found == before else Md5Verdict.AGAIN
