"""What does a dispatcher do while jobs are opened as fast as clients can send?

Processes beside it open jobs, each with many calls under way, and try again at once when they are
refused: worse than any client of ours. Meanwhile the dispatcher is asked for its status, as probes
ask, and a reader reads. What counts is that both are answered, and that memory stays.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Figure, arguments, show

from penstock import Dataset
from penstock.definition import encode
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig

SECONDS = 6.0
FLOODERS, UNDER_WAY = 2, 500

FLOODER = """
import asyncio, sys, time
from penstock.errors import Overloaded, PenstockError
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.types import Codec, Mode
from penstock.runtime.versions import versions
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
address, fingerprint, name, seconds, under_way = sys.argv[1:]
async def main():
    opened = refused = failed = number = 0
    async with connect(address) as channel:
        client, until = DispatcherClient(channel), time.monotonic() + float(seconds)
        async def caller():
            nonlocal opened, refused, failed, number
            while time.monotonic() < until:
                number += 1
                job = f"{name}-{number}"
                asked = JobParameters(fingerprint, Mode.DYNAMIC, Codec.NONE)
                request = OpenIterationRequest(versions(), asked, job, 0)
                try:
                    await client.open_iteration(request)
                    opened += 1
                except Overloaded:
                    refused += 1
                except PenstockError:
                    failed += 1
        await asyncio.gather(*(caller() for _ in range(int(under_way))))
    print(opened, refused, failed)
asyncio.run(main())
"""


async def _waits(address: str, seconds: float) -> list[float]:
    """Return how long the dispatcher took to say its status, again and again, in ms."""
    waits: list[float] = []
    async with connect(address) as channel:
        client, until = DispatcherClient(channel, timeout=30.0), time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.perf_counter()
            await client.status()
            waits.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0.05)
    return waits


async def _registered(address: str) -> str:
    definition = encode(Dataset.range(10).node).to_bytes()
    async with connect(address) as channel:
        return await DispatcherClient(channel).register_dataset(definition, versions())


def _memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def main() -> None:
    """Measure at rest, then in the flood."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=1)
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(workers=1, dispatcher=DispatcherConfig(work_dir=folder)) as cluster,
    ):
        address, pid = cluster.target.removeprefix("grpc://"), cluster.dispatcher.pid
        fingerprint = asyncio.run(_registered(address))
        assert pid is not None
        elements = iter(Dataset.range(10**9).distribute("distributed_epoch", address))
        next(elements)
        rest = asyncio.run(_waits(address, 2.0))
        before = _memory(pid)
        command = [sys.executable, "-c", FLOODER, address, fingerprint]
        flood = [
            subprocess.Popen(
                [*command, f"f{i}", str(SECONDS), str(UNDER_WAY)], stdout=subprocess.PIPE, text=True
            )
            for i in range(FLOODERS)
        ]
        waits = asyncio.run(_waits(address, SECONDS))
        counts = [list(map(int, one.communicate()[0].split())) for one in flood]
        opened, refused, failed = (sum(column) for column in zip(*counts, strict=True))
        next(elements)
        elements.close()
        for name, value, unit in (
            ("status at rest, p50", float(np.median(rest)), "ms"),
            ("status in the flood, p50", float(np.median(waits)), "ms"),
            ("status in the flood, p99", float(np.quantile(waits, 0.99)), "ms"),
            ("jobs opened", opened / SECONDS, "a second"),
            ("openings refused", refused / SECONDS, "a second"),
            ("openings that failed otherwise", float(failed), ""),
            ("memory more", _memory(pid) - before, "MB"),
        ):
            figures.append(Figure(name, value, value, value, unit))
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
