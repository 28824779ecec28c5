"""How fast do elements come through one worker, beside a bare gRPC stream of the same bytes?

The bare server sends one constant object again and again. The relayed one does what a worker cannot
do without: another process copies an array into shared memory, the server makes a message of that.
It checks nothing, counts nothing and resends nothing; what is below it is the price of doing so.

All are tuned alike: uvloop where something is sent, the same thresholds of malloc in each process
(`penstock.runtime.malloc`; the reading one is this, from before its first stream on), and the same
largest frame of HTTP/2 and of a message.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import numpy as np
from measure import arguments, in_turn, show

from penstock import Dataset
from penstock.runtime.malloc import tune
from penstock_cluster import LocalCluster

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_frame_size", 16 * 2**20 - 1),
]
MAKER = """
import mmap, os, sys, numpy
from penstock.runtime.malloc import tune
tune()
nbytes, count, slots = map(int, sys.argv[1:])
ring = numpy.frombuffer(mmap.mmap(3, slots * nbytes), numpy.uint8).reshape(slots, nbytes)
array = numpy.zeros(nbytes, numpy.uint8)
for number in range(count):
    os.read(0, 1)
    ring[number % slots] = array
    os.write(1, b"x")
"""
SERVER = f"""
import asyncio, mmap, os, subprocess, sys, grpc, uvloop
from subprocess import PIPE
from penstock.runtime.malloc import tune
tune()
SLOTS = 8
sizes = {{}}
async def stream(request, context):
    nbytes, count, relayed = map(int, request.split())
    if relayed:
        async for message in relay(nbytes, count):
            yield message
        return
    message = sizes.setdefault(nbytes, bytes(nbytes))
    for _ in range(count):
        yield message
async def relay(nbytes, count):
    file = os.memfd_create("ring")
    os.ftruncate(file, SLOTS * nbytes)
    command = [sys.executable, "-c", {MAKER!r}, *map(str, (nbytes, count, SLOTS))]
    maker = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" 3<>/proc/self/fd/{{file}}', "sh", *command],
        stdin=PIPE, stdout=PIPE, pass_fds=[file], bufsize=0,
    )
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), maker.stdout
    )
    ring = mmap.mmap(file, SLOTS * nbytes)
    os.close(file)
    os.write(maker.stdin.fileno(), b"x" * min(SLOTS, count))
    for number in range(count):
        await reader.readexactly(1)
        at = number % SLOTS * nbytes
        message = ring[at : at + nbytes]
        if number + SLOTS < count:
            os.write(maker.stdin.fileno(), b"x")
        yield message
    maker.stdin.close()
    maker.wait()
async def main():
    server = grpc.aio.server(options={OPTIONS!r})
    handler = grpc.unary_stream_rpc_method_handler(stream)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("bare", {{"Stream": handler}})]
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()
uvloop.run(main())
"""
SIZES = {"1 MiB": (2**20, 2_000), "4.8 MB": (4_816_896, 500)}
"""Bytes of an element, and how many there are: a pass of a second, not of its beginning."""
SCALARS = 1_000_000


@contextmanager
def _bare_server() -> Iterator[str]:
    """Run a gRPC server that streams constant bytes, in a process of its own."""
    command = [sys.executable, "-c", SERVER]
    calm = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=calm) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def _bare(address: str, nbytes: int, count: int, *, relayed: bool = False) -> float:
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        stream = iter(
            channel.unary_stream("/bare/Stream")(f"{nbytes} {count} {relayed:d}".encode())
        )
        next(stream)
        began = time.perf_counter()
        got = sum(len(message) for message in stream)
        return got / (time.perf_counter() - began) / 1e9


def _through_a_worker(target: str, nbytes: int, count: int) -> float:
    array = np.zeros(nbytes, np.uint8)
    dataset = Dataset.range(count).map(lambda _: array)
    with iter(
        dataset.distribute(
            "parallel_epochs", target, compression=None, data_transfer_protocol="grpc"
        )
    ) as it:
        next(it)
        began = time.perf_counter()
        got = sum(element.nbytes for element in it)
        return got / (time.perf_counter() - began) / 1e9


def _scalars(target: str) -> float:
    with iter(Dataset.range(SCALARS).distribute("parallel_epochs", target)) as it:
        next(it)
        began = time.perf_counter()
        got = sum(1 for _ in it)
        return got / (time.perf_counter() - began)


def _sharded_scalars(target: str) -> float:
    with iter(Dataset.range(SCALARS).distribute("distributed_epoch", target)) as it:
        next(it)
        began = time.perf_counter()
        got = sum(1 for _ in it)
        return got / (time.perf_counter() - began)


def main() -> None:
    """Measure each size against the bare stream, and scalars alone."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    tune(one_arena=True)  # as a reader has it, before there are threads
    figures = []
    with _bare_server() as bare, LocalCluster(workers=1) as cluster:
        target = cluster.target
        for name, (nbytes, count) in SIZES.items():
            pair: list[tuple[str, Callable[[], float]]] = [
                (f"{name}: bare gRPC", lambda n=nbytes, c=count: _bare(bare, n, c)),
                (
                    f"{name}: bare gRPC, relayed",
                    lambda n=nbytes, c=count: _bare(bare, n, c, relayed=True),
                ),
                (f"{name}: one worker", lambda n=nbytes, c=count: _through_a_worker(target, n, c)),
            ]
            figures += in_turn(pair, "GB/s", options.runs)
        scalars: list[tuple[str, Callable[[], float]]] = [
            ("int64 scalars, OFF", lambda: _scalars(target)),
            ("int64 scalars, DYNAMIC", lambda: _sharded_scalars(target)),
        ]
        figures += in_turn(scalars, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
