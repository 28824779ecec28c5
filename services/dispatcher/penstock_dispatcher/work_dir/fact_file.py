"""Facts beside the journal, in a file of their own: a line of JSON for each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from penstock.preemption.agreement import Agreements, Fact
from penstock_dispatcher.work_dir.atomic_file import (
    make_private_file,
    remove_unfinished,
    write_whole,
)

log = logging.getLogger("penstock.dispatcher")

F = TypeVar("F")

_ENCODER = msgspec.json.Encoder()


class FactFile(Generic[F]):
    """Facts of one *kind* in *file*, appended one by one; *lost* says what a lost one costs.

    Without a file nothing is kept.
    """

    def __init__(self, file: Path | None, kind: object, lost: str) -> None:
        self._file, self._lost = file, lost
        self._decoder: msgspec.json.Decoder[F] = msgspec.json.Decoder(kind)
        self._failed = False

    def read(self) -> Iterator[F]:
        """Yield the facts in the file; the last line may have been cut off by a crash."""
        if self._file is None or not self._file.exists():
            return
        lines = self._file.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                yield self._decoder.decode(line)
            except msgspec.MsgspecError as exc:
                if number < len(lines):
                    words = "%s, line %d is no fact (%s), and is left out"
                    log.warning(words, self._file, number, exc)

    def rewrite(self, facts: Iterable[F]) -> None:
        """Have *facts* in it and nothing else; a file that is not there is not made."""
        if self._file is not None and self._file.exists():
            remove_unfinished(self._file)
            write_whole(self._file, [_line(fact) for fact in facts], power=False)

    def keep(self, fact: object) -> None:
        """Append *fact*; one that cannot be written is said once."""
        if self._file is None:
            return
        try:
            make_private_file(self._file)
            with self._file.open("ab") as out:
                out.write(_line(fact))
        except OSError as exc:
            if not self._failed:
                log.warning("%s cannot be written (%s): %s", self._file, exc.strerror, self._lost)
            self._failed = True


def _line(fact: object) -> bytes:
    return _ENCODER.encode(fact) + b"\n"


AGREEMENTS = "preemption.jsonl"

LOST_AGREEMENTS = "after a restart trainers that were told to stop agree again"


def agreements_at(work_dir: str | None) -> Agreements:
    """Return what groups in a folder agreed on, if anything; decisions are written there."""
    file = FactFile[Fact](
        None if work_dir is None else Path(work_dir) / AGREEMENTS, Fact, LOST_AGREEMENTS
    )
    needed = Agreements(list(file.read()), lambda _: None).facts()
    file.rewrite(needed)
    return Agreements(needed, file.keep)
