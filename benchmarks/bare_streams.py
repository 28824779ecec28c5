"""Bare streams of bytes to compare with: what gRPC and TCP give if nothing else is done.

The gRPC server sends one constant object again and again. The relayed one does what a worker cannot
do without: another process copies an array into shared memory, the server makes a message of that.
The TCP server sends mapped memory with ``sendmsg``, and the client receives into one buffer.
None checks, counts or resends anything.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

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
GRPC_SERVER = f"""
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
TCP_SERVER = """
import mmap, socket, sys
listening = socket.create_server((sys.argv[1], 0))
print(listening.getsockname()[1], flush=True)
while True:
    link, _ = listening.accept()
    with link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nbytes, count, slots = map(int, link.recv(100).split())
        arena = mmap.mmap(-1, slots * nbytes)
        arena.write(b"x" * slots * nbytes)
        view = memoryview(arena)
        for number in range(count):
            at = number % slots * nbytes
            parts = [nbytes.to_bytes(16, "little"), view[at : at + nbytes]]
            sent = link.sendmsg(parts)
            if sent < 16 + nbytes:
                link.sendall(parts[1][sent - 16 :])
"""
SLOTS = 8
"""Frames in the memory that the TCP server sends from, one after the other."""


@dataclass(frozen=True)
class Server:
    """A server in a process of its own, where one can connect."""

    address: tuple[str, int]
    pid: int


@contextmanager
def running(program: str, host: str = "127.0.0.1") -> Iterator[Server]:
    """Run a *program* that prints its port at *host*, and end it."""
    calm = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    command = [sys.executable, "-c", program, host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=calm) as process:
        try:
            assert process.stdout is not None
            yield Server((host, int(process.stdout.readline())), process.pid)
        finally:
            process.kill()


def by_grpc(server: Server, nbytes: int, count: int, *, relayed: bool = False) -> Iterator[int]:
    """Read *count* messages; yield the bytes of each."""
    host, port = server.address
    with grpc.insecure_channel(f"{host}:{port}", options=OPTIONS) as channel:
        asked = f"{nbytes} {count} {relayed:d}".encode()
        for message in channel.unary_stream("/bare/Stream")(asked):
            yield len(message)


def by_tcp(server: Server, nbytes: int, count: int) -> Iterator[int]:
    """Read *count* frames into one buffer; yield the bytes of each."""
    head, body = bytearray(16), bytearray(nbytes)
    with socket.create_connection(server.address) as link:
        link.sendall(f"{nbytes} {count} {SLOTS}".encode())
        for _ in range(count):
            link.recv_into(head, 16, socket.MSG_WAITALL)
            yield link.recv_into(body, int.from_bytes(head, "little"), socket.MSG_WAITALL)
