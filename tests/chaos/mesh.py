"""A mesh of real processes with a link between any two that talk, and what can be done to it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.clock.sitecustomize import DYING
from chaos.limits import Restore
from chaos.plan import LEASE, Cached, Kind, Ordered, Plan, Rounds, Saved
from chaos.processes import TOKEN, Process
from chaos.proxy import Link, Links
from penstock.credentials.caller import PLAIN, caller_with
from penstock.errors import PenstockError
from penstock.protocol.types import WorkerId
from penstock.runtime.settings import to_env
from penstock.service import set_weights
from penstock.wire.connection import Channel, connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_dispatcher.config import DispatcherConfig
from penstock_worker import WorkerConfig

BEAT = 0.15
JOB = "chaos"
RECORD = 12
NOWHERE = -1
"""The place of an id that should not be."""

TRAINER = str(Path(__file__).with_name("trainer.py"))
SAVER = str(Path(__file__).with_name("saver.py"))
HOST = "127.0.0.1"

MOST_MEMORY = 400 << 20
"""Bytes that a service may have for itself when all was read: ten times what an idle one has."""

MEMORY = 1 << 30
"""How many bytes a runner may have for itself; who is told to be greedy asks for twice as many."""


@dataclass(eq=False)
class Worker:
    """A worker, the link that its heartbeats go through, and the one that it is read through."""

    process: Process
    up: Link
    read: Link

    def start(self) -> None:
        """Start it; it registers when it can."""
        self.process.start()
        self.read.accept()

    def kill(self) -> None:
        """Kill it: from now on nobody listens there."""
        self.process.kill()
        self.read.refuse()


@dataclass(frozen=True, slots=True)
class Role:
    """What a training loop reads as: a consumer from round *start* on, or a reader of *trainer*."""

    consumer: int | None = None
    start: int | None = None
    trainer: str = ""
    slower: float = 1.0
    """How many times as slow it is as the plan says."""


@dataclass(eq=False)
class Reader:
    """A training loop, its link to the dispatcher, and its log."""

    process: Process
    up: Link
    log: Path
    after_save: int = -1
    """The newest save that was ordered before it began."""
    role: Role = field(default_factory=Role)
    leaving: bool = False
    """Whether it was told to leave, which takes its time."""
    _records: list[tuple[str, int]] = field(default_factory=list)

    def records(self) -> list[tuple[str, int]]:
        """Return what it wrote down, in order."""
        if self.written > len(self._records):
            with self.log.open("rb") as log:
                log.seek(len(self._records) * RECORD)
                new = log.read()
            lines = new[: len(new) // RECORD * RECORD].decode().splitlines()
            self._records += [(line[0], int(line[1:])) for line in lines]
        return self._records

    @property
    def written(self) -> int:
        """How many records there are."""
        return self.log.stat().st_size // RECORD if self.log.exists() else 0

    @property
    def saw_end(self) -> bool:
        """Whether it saw the end of the pass."""
        return self.has("e", 0)

    def renumber(self, places: Mapping[int, int]) -> None:
        """Have each id that it took be a place: *places* has that of each id. It has ended."""
        self._records = [
            (kind, places.get(number, NOWHERE) if kind in "tm" else number)
            for kind, number in self.records()
        ]

    def forget(self) -> None:
        """Read its log anew: it is about to begin again, and to cut it."""
        self._records = []

    def has(self, kind: str, number: int) -> bool:
        """Whether it wrote that down."""
        return (kind, number) in self.records()


@dataclass
class Mesh:
    """One life: a dispatcher, workers and readers. Close it."""

    links: Links
    folder: Path
    plan: Plan
    token: str
    work_dir: Path
    files: Path
    """A folder with one id a line."""
    keys: Path | None = None
    """A folder with credentials for all roles, if everybody has some."""
    disk: Path | None = None
    """The small disk that the work directory is on, if it is on one."""
    saved: str = ""
    """Where a dataset is saved, or was."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What all processes have in their environment."""
    first: int = 0
    """The lowest id that an iteration of this life may have."""
    workers: list[Worker] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    limits: list[Restore] = field(default_factory=list)
    """What lifts limits that were set."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.greedy.parent.mkdir(exist_ok=True)
        self.greedy.unlink(missing_ok=True)
        self.work_dir.mkdir(exist_ok=True)
        self.port = free_port()
        config = DispatcherConfig(
            insecure=self.keys is None,  # proofs are for one port, and proxies have others
            credentials=self._credentials("dispatcher"),
            port=self.port,
            work_dir=str(self.work_dir),
            worker_timeout=LEASE / 3,
            client_timeout=LEASE,
            consumer_timeout=LEASE,
            heartbeat_interval=BEAT,
        )
        self.dispatcher = self._service("dispatcher", "penstock_dispatcher", to_env(config))
        self.dispatcher.start()
        self.dispatcher.wait_ready()

    def add_workers(self, count: int) -> list[Worker]:
        """Start workers, all at once; return at once."""
        new = [self._worker(len(self.workers) + i) for i in range(count)]
        for worker in new:
            worker.start()
        self.workers += new
        return new

    def add_reader(
        self, after_save: int = -1, restore: Path | None = None, role: Role | None = None
    ) -> Reader:
        """Start a training loop.

        Who joins a restored pass does so without its state: once all who had it are gone, the
        state would begin another pass.
        """
        name = f"reader {len(self.readers)}"
        plan, role = self.plan, role or Role()
        spec = {
            "restore": str(restore) if restore is not None else None,
            **_shared(plan, role),
        }
        reader = self._reader(name, TRAINER, spec, self.folder / f"{name}.log", role)
        reader.after_save = after_save
        return reader

    def add_saver(self) -> Reader:
        """Start a process that saves."""
        name = f"saver {len(self.readers)}"
        return self._reader(name, SAVER, self._saving(follows=False), self.folder / f"{name}.log")

    def add_follower(self, name: str) -> Reader:
        """Start one that follows the save; it goes on from where one of this name was."""
        state = self.folder.parent / f"{name}.state"
        spec = self._saving(follows=True) | {"state": str(state)}
        return self._reader(name, SAVER, spec, self.folder.parent / f"{name}.log")

    def _saving(self, *, follows: bool) -> dict[str, Any]:
        sharing = self.plan.sharing
        assert isinstance(sharing, Saved)
        return {"follows": follows, **asdict(sharing), "payload": 0}

    def _reader(
        self, name: str, script: str, more: dict[str, Any], log: Path, role: Role = Role()
    ) -> Reader:
        up, plan = self.links.link((HOST, self.port)), self.plan
        spec = {
            "target": self._target(up.address),
            "credentials": self._credentials("trainer"),
            "mode": plan.mode,
            "job": JOB,
            "pipeline": plan.pipeline,
            "local": plan.local,
            "elements": plan.elements,
            "delay": plan.delay,
            "pace": plan.pace * role.slower,
            "codec": plan.codec,
            "transport": plan.transport,
            "frames": plan.frames,
            "passes": plan.passes,
            "files": str(self.files / "*"),
            "greedy": str(self.greedy) if plan.has(Kind.GREEDY) else "",
            "memory": 2 * MEMORY,
            "timeout": 60.0,
            "log": str(log),
            "saved": self.saved,
            **more,
        }
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(spec))
        process = Process(
            name,
            [sys.executable, script, str(path)],
            self._env(),
            self.folder / f"{name}.err",
            announces=False,
        )
        process.start()
        reader = Reader(process, up, log, role=role)
        self.readers.append(reader)
        return reader

    @property
    def logged(self) -> int:
        """How many elements' ids were written down in this life, roughly."""
        return sum(reader.written for reader in self.readers)

    @property
    def greedy(self) -> Path:
        """A file that is there while some runner is to ask for too much memory.

        It is the same one in all lives, as it is a part of the pipeline.
        """
        return self.folder.parent / "orders" / "greedy"

    @property
    def dying(self) -> Path:
        """A file that says at which of its writes the next process that writes is to be killed."""
        return self.greedy.with_name("dying")

    def status(self) -> Any:
        """Ask the dispatcher for its `Stats`, past all links."""
        return json.loads(asyncio.run(self._status()))

    def drain(self, worker: Worker) -> bool:
        """Have the dispatcher tell a worker to leave; say whether the worker says it does."""
        try:
            asyncio.run(self._drain(WorkerId(worker.read.address)))
        except PenstockError:
            return False
        worker.process.told += 1
        return True

    def set_weights(self, weights: Mapping[str, float]) -> int:
        """Change the weights of the mixture that is read, past all links."""
        credentials = self._credentials("operator")
        target = self._target(f"{HOST}:{self.port}")
        return set_weights(target, JOB, weights, credentials=credentials)

    def heal(self) -> None:
        """Make all links wires again, and let everybody go on."""
        for link in self.all_links():
            link.heal()
        for process in self.all_processes():
            process.proceed()

    def all_links(self) -> list[Link]:
        """Return all links to who can be reached."""
        reads = [w.read for w in self.workers if w.process.alive]
        return [*reads, *(w.up for w in self.workers), *(r.up for r in self.readers)]

    def all_processes(self) -> list[Process]:
        """Return all processes, also those that ended."""
        people = [*self.readers, *self.workers]
        return [*(one.process for one in people), self.dispatcher]

    @property
    def services(self) -> list[Process]:
        """The dispatcher and all workers, those that ended, too."""
        return [self.dispatcher, *(worker.process for worker in self.workers)]

    def kill(self) -> None:
        """Kill everything."""
        for process in self.all_processes():
            process.kill()

    def held(self, within: float) -> list[str]:
        """Return which services go on to hold frames or too much memory, though all were read.

        Workers keep the windows of a cached job, for trainers that come late, and for a while what
        savers have not taken that were killed.
        """
        deadline = time.monotonic() + within
        while holding := [one for one in self.services if one.shared_memory]:
            if isinstance(self.plan.sharing, Cached | Saved):
                holding = []
            if not holding or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        large = [one for one in self.services if one.memory > MOST_MEMORY]
        return [
            *(f"left over: {one.shared_memory} bytes of frames in {one.name}" for one in holding),
            *(f"left over: {one.memory} bytes of memory in {one.name}" for one in large),
        ]

    def unfinished(self) -> list[Path]:
        """Return the files that a dispatcher left which it did not finish."""
        return [file for file in self.work_dir.rglob(".*") if file.is_file()]

    def end(self, within: float) -> list[str]:
        """Ask everything to end; return who did not, or not well."""
        services = [*(w.process for w in self.workers), self.dispatcher]
        told = [process for process in services if process.alive and process.ready]
        for process in told:
            if not process.told:
                process.terminate()
        late = [process for process in told if not process.wait(within)]
        bad = [process for process in told if process.failed]
        return [
            *(f"{process.name} did not end within {within} s" for process in late),
            *(f"{process.name} ended with {process.code}" for process in bad),
        ]

    def close(self) -> None:
        """Leave nothing behind."""
        for process in self.all_processes():
            process.close()
        self.lift_limits()

    def lift_limits(self) -> None:
        """Give back what was taken from processes, and from the disk."""
        for restore in self.limits:
            restore()
        self.limits.clear()

    def _credentials(self, role: str) -> str | None:
        return None if self.keys is None else str(self.keys / role)

    def _target(self, address: str) -> str:
        return f"{'grpc' if self.keys is None else 'grpcs'}://{address}"

    def _connect(self) -> AbstractAsyncContextManager[Channel]:
        caller = caller_with(self._credentials("operator") or PLAIN)
        return connect(f"{HOST}:{self.port}", caller=caller)

    async def _status(self) -> bytes:
        async with self._connect() as channel:
            return await DispatcherClient(channel, timeout=5.0).status()

    async def _drain(self, worker: WorkerId) -> None:
        async with self._connect() as channel:
            await DispatcherClient(channel, timeout=5.0).drain(worker)

    def dump_stacks(self) -> None:
        """Have everybody print where they are, and end."""
        self.heal()
        for reader in self.readers:
            reader.process.signal(signal.SIGUSR1)
        for worker in self.workers:
            worker.process.signal(signal.SIGABRT)
        self.dispatcher.signal(signal.SIGABRT)
        for process in self.all_processes():
            process.wait(1.0)

    def _worker(self, number: int) -> Worker:
        up = self.links.link((HOST, self.port))
        port = free_port()
        read = self.links.link((HOST, port))
        config = WorkerConfig(
            insecure=self.keys is None,
            credentials=self._credentials("worker"),
            slots=self.plan.slots,
            dispatcher_address=up.address,
            worker_address=read.address,
            port=port,
            buffer_bytes=self.plan.buffer,
            runner_memory_bytes=MEMORY,
        )
        sharing = self.plan.sharing
        if isinstance(sharing, Cached) and sharing.window is not None:
            config = replace(config, cross_trainer_cache_size_bytes=sharing.window)
        return Worker(
            self._service(f"worker {number}", "penstock_worker", to_env(config)), up, read
        )

    def _service(self, name: str, module: str, env: dict[str, str]) -> Process:
        command = [sys.executable, "-m", module]
        log = self.folder / f"{name}.err"
        return Process(name, command, self._env() | env, log, announces=True)

    def _env(self) -> dict[str, str]:
        own = {TOKEN: self.token, "PYTHONFAULTHANDLER": "1", "PENSTOCK_LOG": "INFO"}
        if self.plan.has(Kind.DIE_AT_WRITE):
            own[DYING] = str(self.dying)
        return own | dict(self.env)


def _shared(plan: Plan, role: Role) -> dict[str, Any]:
    """Return what a loop must know of how what there is is shared."""
    sharing = plan.sharing
    given = {
        "consumer": role.consumer,
        "start": role.start,
        "trainer": role.trainer,
        "in_order": False,
        "payload": sharing.payload if isinstance(sharing, Cached) else 0,
    }
    if isinstance(sharing, Cached):
        return given | {"when_full": sharing.when_full}
    if isinstance(sharing, Rounds):
        return given | asdict(sharing)
    if isinstance(sharing, Ordered):
        return given | {"in_order": True, "consumers": sharing.consumers}
    return given


def free_port() -> int:
    """Return a port below those that the system gives away: at a restart it is free, too."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as sock:
            try:
                sock.bind((HOST, port))
            except OSError:
                continue
            return port
