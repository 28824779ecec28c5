"""``penstock trace``: what becomes of frames, for some seconds, in a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.credentials.caller import OPERATOR, Caller, caller_of
from penstock.errors import ConfigError, PenstockError
from penstock.explanation.trace import journeys, trace_json
from penstock.protocol.data import TraceEvent
from penstock.protocol.names import printable_lines
from penstock.reader.arguments import service_of
from penstock.wire.connection import connect
from penstock.wire.worker import SERVER, WorkerClient
from penstock_cluster.cli.client import PATIENCE, errors, screen
from penstock_cluster.cli.pass_details import reader_name
from penstock_cluster.cli.status import look

ASK_EVERY = 0.5
"""Seconds between two questions: a worker records for some seconds after each."""

LAST_WORD = 0.5
"""Seconds that readers get to report when the last frames arrived."""


def trace(target: str, seconds: float, output: Path) -> None:
    """Write what becomes of frames within *seconds* at all workers of *target* to *output*.

    Raises:
        ConfigError: when *output* cannot be written, before anything is asked.
        Unavailable: when no dispatcher answers.
    """
    with _writable(output):
        _record(target, seconds, output)


@contextmanager
def _writable(output: Path) -> Iterator[None]:
    """Raise at once if *output* cannot be written; leave no empty file where the block fails."""
    made = not output.exists()
    try:
        output.open("ab").close()
    except OSError as exc:
        raise ConfigError(f"--output {str(output)!r} cannot be written: {exc.strerror}") from exc
    try:
        yield
    except BaseException:
        if made:
            output.unlink(missing_ok=True)
        raise


def _record(target: str, seconds: float, output: Path) -> None:
    before = look(target)
    workers = [one.address for one in before.stats.workers]
    found = asyncio.run(_of_all(workers, seconds, caller_of(service_of(target), role=OPERATOR)))
    passes = (*before.stats.iterations, *look(target).stats.iterations)
    readers = {reader.reader: reader_name(reader) for one in passes for reader in one.readers}
    seen = journeys(found)
    output.write_bytes(trace_json(seen, readers))
    whole = sum(one.times is not None for one in seen)
    screen.print(
        f"{len(seen):,} frames of {len(found)} worker(s) in {output}, {whole:,} of them up to the "
        "loop: open it at ui.perfetto.dev, or in about:tracing of Chrome"
    )


async def _of_all(
    workers: list[str], seconds: float, caller: Caller
) -> dict[str, list[TraceEvent]]:
    until = time.monotonic() + seconds
    told = await asyncio.gather(*(_of(worker, until, caller) for worker in workers))
    return {worker: events for worker, events in zip(workers, told, strict=True) if events}


async def _of(worker: str, until: float, caller: Caller) -> list[TraceEvent]:
    """Return what a worker recorded; one that does not answer is told of, and left out."""
    events: list[TraceEvent] = []
    after, missed = -1, 0
    try:
        async with connect(worker, patience=PATIENCE, caller=caller, server=SERVER) as channel:
            client = WorkerClient(channel)
            over = False
            while not over:
                some, reply = await client.trace(after)
                events += some
                after, missed = reply.next, missed + reply.missed
                await asyncio.sleep(min(ASK_EVERY, max(0.0, until - time.monotonic())))
                over = time.monotonic() >= until
            await asyncio.sleep(LAST_WORD)
            events += (await client.trace(after))[0]
    except PenstockError as exc:
        errors.print(f"worker {worker}: {printable_lines(str(exc))}", markup=False)
    if missed:
        errors.print(f"worker {worker} had {missed:,} events more than it keeps", markup=False)
    return events
