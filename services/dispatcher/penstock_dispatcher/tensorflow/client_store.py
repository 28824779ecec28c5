"""What TensorFlow's clients know by numbers, in a file: a line of JSON for each fact."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from penstock_dispatcher.atomic_file import write_whole
from penstock_dispatcher.tensorflow.clients import ClientFact, Fact, TensorFlowClients

log = logging.getLogger("penstock.dispatcher")

NAME = "tensorflow-clients.jsonl"

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Fact)


def clients_at(work_dir: str | None) -> TensorFlowClients:
    """Return the clients that are known in a folder, or none; what is decided is written there.

    What nobody needs any more is left out at each start.
    """
    # Numbers of another life, of which nothing was kept, must not come again.
    first = int(time.time()) << 10
    if work_dir is None:
        return TensorFlowClients((), first, _forget)
    file = Path(work_dir) / NAME
    known = list(_read(file))
    needed = TensorFlowClients(known, first, _forget).facts()
    if known:
        write_whole(file, [_line(fact) for fact in needed], power=False)
    return TensorFlowClients(needed, first, _Writer(file))


class _Writer:
    """Appends facts to *file*, which is made with the first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._failed = False

    def __call__(self, fact: ClientFact) -> None:
        try:
            with self._file.open("ab") as out:
                out.write(_line(fact))
        except OSError as exc:
            if not self._failed:
                log.warning(
                    "%s cannot be written (%s): after a restart TensorFlow's clients must begin "
                    "anew",
                    self._file,
                    exc.strerror,
                )
            self._failed = True


def _forget(_fact: ClientFact) -> None:
    """Keep nothing."""


def _line(fact: ClientFact) -> bytes:
    return _ENCODER.encode(fact) + b"\n"


def _read(file: Path) -> Iterable[Fact]:
    """Yield the facts of *file*; the last line may have been cut off by a crash."""
    if not file.exists():
        return
    lines = file.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield _DECODER.decode(line)
        except msgspec.MsgspecError as exc:
            if number < len(lines):
                log.warning("%s, line %d is no fact (%s), and is left out", file, number, exc)
