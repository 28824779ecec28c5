"""A slow link between two networks of this machine: its own rate, delay, loss and silence.

A process takes each packet from the one network and gives it to the other one later, as a router
with a short queue and a long wire does. Only the packets are passed on: the connections through the
link are the kernel's, with its own windows and congestion control. It needs Linux, the commands
``ip`` and ``unshare``, and the rights of root in a network of one's own.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

NEAR, FAR = "10.77.0.1", "10.77.0.2"
"""The addresses of both ends."""

MTU = 9000
"""Bytes of a packet, as in many data centres: of 1,500, one core could not pass on enough."""

QUEUE = 0.05
"""Seconds of packets that wait for the link; it drops what comes while there are more."""

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # from linux/if_tun.h

_FAR = """
read begun
ip link set lo up && ip addr add $1/30 dev far0 && ip link set far0 up || exit 1
shift
exec "$@"
"""


@dataclass(frozen=True)
class Quality:
    """What a link gives: bytes a second, seconds of delay each way, and the share that it loses."""

    rate: float = 125e6
    delay: float = 0.01
    loss: float = 0.0


SILENT = Quality(loss=1.0)


def why_not() -> str | None:
    """Return why this machine has no such link, or None."""
    if missing := [name for name in ("ip", "unshare") if shutil.which(name) is None]:
        return f"no command {missing[0]!r}"
    tried = subprocess.run(
        [*_own_network(), "ip", "tuntap", "add", "near0", "mode", "tun"],
        capture_output=True,
        check=False,
        text=True,
    )
    return f"no network of one's own: {tried.stderr.strip()}" if tried.returncode else None


def in_own_network(command: Sequence[str]) -> Sequence[str]:
    """Return the command that runs *command* in a network with nothing but its own ``lo``."""
    return [*_own_network(), "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]


def _own_network() -> Sequence[str]:
    root = () if os.geteuid() == 0 else ("--map-root-user",)
    return ["unshare", *root, "--net"]


class Link:
    """An open link, from this process's network to others."""

    def __init__(self, relay: subprocess.Popen[str], device: int) -> None:
        self._relay, self._device = relay, device
        self.far: list[subprocess.Popen[str]] = []

    def become(self, quality: Quality) -> None:
        """Have the *quality* from now on."""
        assert self._relay.stdin is not None
        print(json.dumps(asdict(quality)), file=self._relay.stdin, flush=True)

    def beyond(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Run *command* in the network at the far end, of which a link has one."""
        process = subprocess.Popen(
            [*_own_network(), "sh", "-c", _FAR, "sh", FAR, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.far.append(process)
        own, its = Path("/proc/self/ns/net"), Path(f"/proc/{process.pid}/ns/net")
        while its.readlink() == own.readlink():
            time.sleep(0.01)
        _ip("link", "set", "far0", "netns", str(process.pid))
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
        return process


@contextmanager
def link(quality: Quality) -> Iterator[Link]:
    """Open a link of *quality* from this process's network, which is one of its own."""
    near, far = _device("near0"), _device("far0")
    _ip("addr", "add", f"{NEAR}/30", "dev", "near0")
    _ip("link", "set", "near0", "up")
    command = [sys.executable, __file__, str(near), str(far)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, pass_fds=(near, far)) as relay:
        os.close(near)
        os.close(far)
        opened = Link(relay, far)
        opened.become(quality)
        try:
            yield opened
        finally:
            relay.kill()
            for process in opened.far:
                process.communicate()  # its input ends, and so does it


def _device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    asked = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(device, _TUNSETIFF, asked)
    _ip("link", "set", name, "mtu", str(MTU), "txqueuelen", "10000")
    return device


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Lane:
    """One direction of a link: takes packets from *source*, gives them to *target* when due."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._free = 0.0

    def take(self, quality: Quality) -> None:
        """Take all packets that are there."""
        with suppress(BlockingIOError):
            while True:
                packet = os.read(self._source, MTU)
                now = time.monotonic()
                begins = max(now, self._free)
                if begins - now < QUEUE and random.random() >= quality.loss:
                    self._free = begins + len(packet) / quality.rate
                    self._waiting.append((self._free + quality.delay, packet))

    def give(self) -> float | None:
        """Give on all packets that are due; return the seconds until the next one is."""
        while self._waiting:
            due, packet = self._waiting[0]
            if (left := due - time.monotonic()) > 0:
                return left
            self._waiting.popleft()
            with suppress(OSError):  # the other end is not up yet, or has ended
                os.write(self._target, packet)
        return None


def relay(near: int, far: int, told: IO[str]) -> None:
    """Pass packets on until nobody can tell anything any more."""
    with suppress(PermissionError):  # a link is as fast as it is, whatever else runs
        os.nice(-20)
    lanes = {near: Lane(near, far), far: Lane(far, near)}
    quality = Quality()
    while True:
        left = [lane.give() for lane in lanes.values()]
        wait = min((one for one in left if one is not None), default=None)
        readable, _, _ = select.select([*lanes, told], [], [], wait)
        for one in readable:
            if one is not told:
                lanes[one].take(quality)
            elif line := told.readline():
                quality = Quality(**json.loads(line))
            else:
                return


if __name__ == "__main__":
    relay(int(sys.argv[1]), int(sys.argv[2]), sys.stdin)
