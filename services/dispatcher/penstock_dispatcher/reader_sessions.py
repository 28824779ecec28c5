"""The readers of one stream of heartbeats, as they count for who opened it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.credentials.per_identity import PerIdentity, identity_answered
from penstock.protocol.types import IterationId


class ReaderSessions:
    """Readers by their session, each with what it reads; *of_identity* bounds them."""

    def __init__(self, of_identity: PerIdentity) -> None:
        self._of_identity, self._who = of_identity, identity_answered()
        self._reads: dict[str, IterationId] = {}
        self._counted = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __getitem__(self, session: str) -> IterationId:
        return self._reads[session]

    def note(self, session: str, iteration: IterationId) -> None:
        """Note that *session* was heard; one that is refused leaves with the stream, too.

        Raises:
            Overloaded: when it is another one, and there are as many as there may be.
        """
        is_new = session not in self._reads
        self._reads[session] = iteration
        if is_new:
            self._of_identity.take(self._who)
            self._counted += 1

    def close(self) -> None:
        """Count none of them any more."""
        if self._counted:
            self._of_identity.give_back(self._who, self._counted)
        self._reads, self._counted = {}, 0
