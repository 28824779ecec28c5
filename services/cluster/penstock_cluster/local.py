"""`LocalCluster`: a dispatcher and workers as processes on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from penstock.errors import Closed, ConfigError, WaitedTooLong
from penstock.runtime.interrupts import close_dropped, in_own_thread
from penstock.runtime.linux import check_service
from penstock.runtime.settings import to_env
from penstock_cluster.fork_servers import ForkServers, held
from penstock_cluster.member import Member
from penstock_dispatcher.config import DispatcherConfig
from penstock_worker.config import WorkerConfig
from penstock_worker.memory_share import buffer_size

SLOTS = 1
"""How many slots a worker has by default."""

START_WITHIN = 30.0
"""Seconds within which every process must answer."""


class LocalCluster:
    """A dispatcher and workers, each a process, on free ports of this machine.

    The processes end with this one, whatever ends it. Scripts need no ``__main__`` guard. As a
    context manager it starts, and at the end of the block stops. Workers share the machine: each
    has one slot, unless *worker* says how many. All are forked from processes that have everything
    loaded, which the clusters of a process share.

    Args:
        workers: how many workers to start with; more come with `add_worker`.
        work_dir: where the dispatcher keeps its files; a temporary folder if none is given.
        dispatcher: settings of the dispatcher.
        worker: settings of each worker; the dispatcher's address is filled in.

    Raises:
        ConfigError: when *workers* is no integer of at least 0.

    >>> with LocalCluster(workers=2) as cluster:
    ...     dataset = Dataset.range(10).distribute("distributed_epoch", cluster.target)
    ...     sorted(int(x) for x in dataset)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        work_dir: str | Path | None = None,
        dispatcher: DispatcherConfig = DispatcherConfig(),  # noqa: B008  frozen
        worker: WorkerConfig = WorkerConfig(),  # noqa: B008  frozen
    ) -> None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
            raise ConfigError(f"workers must be an integer of at least 0, not {workers!r}")
        self._count = workers
        self._process = os.getpid()
        self._given_dir = Path(work_dir) if work_dir is not None else None
        self._dispatcher_config, self._worker_config = dispatcher, worker
        self._lock = threading.Lock()
        self._dispatcher: Member | None = None
        self._closed = False
        self._held = ExitStack()
        self._servers: ForkServers | None = None
        self.workers: list[Member] = []
        """The workers in order of start, also those that were killed."""

    @property
    def dispatcher(self) -> Member:
        """The dispatcher's process.

        Raises:
            Closed: before the start.
        """
        if self._dispatcher is None:
            raise Closed("the cluster has not been started: use it in a with block")
        return self._dispatcher

    @property
    def target(self) -> str:
        """The service address for `distribute`: ``grpc://host:port``, or ``grpcs://`` with TLS."""
        return f"{self._dispatcher_config.scheme}://{self.dispatcher.address}"

    @property
    def work_dir(self) -> Path:
        """The folder where the dispatcher keeps its files; there from the start on."""
        return self._work_dir

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __del__(self) -> None:
        if getattr(self, "_dispatcher", None) is None or self._is_copy:
            return  # its __init__ failed, or it was not started, or it is the parent's
        if in_own_thread():  # the collector's choice: it has other things to do
            close_dropped(self.stop)
        else:
            self.stop()

    def start(self) -> None:
        """Start all processes; return when every worker is registered. Idempotent while they run.

        Raises:
            ConfigError: where this is not Linux, no folder can be written to, or a process ended
                at its start; its own message is on stderr.
            WaitedTooLong: naming the processes that did not answer within 30 s.
            Closed: after `stop`.
        """
        if self._closed:
            raise Closed("this cluster was stopped; make another one")
        if self._dispatcher is not None:
            return
        check_service("a cluster")
        given = self._given_dir
        self._work_dir = given_folder(given) if given is not None else temporary_folder()
        try:
            deadline = time.monotonic() + START_WITHIN
            self._servers = self._held.enter_context(held())
            self._servers.start_and_load_reader()
            config = replace(self._dispatcher_config, work_dir=str(self._work_dir))
            self._dispatcher = Member(
                "penstock_dispatcher",
                "dispatcher",
                to_env(config),
                START_WITHIN,
                servers=self._servers,
            )
            self._dispatcher.wait_ready(self._dispatcher.launch(), deadline)
            self._start_workers(self._count, deadline)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes at once, and remove the temporary folder.

        Idempotent, from any thread. In a forked child it does nothing: the cluster is the parent's.
        """
        if self._is_copy:  # without the lock, which a thread of the parent may have held
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            # The dispatcher first: it would take workers that end before it for lost.
            members = [*([self._dispatcher] if self._dispatcher else []), *self.workers]
            for member in members:
                member.end()
            for member in members:
                member.close()
            self._held.close()
            if self._given_dir is None and hasattr(self, "_work_dir"):
                remove_temporary(self._work_dir)

    @property
    def _is_copy(self) -> bool:
        """Whether a fork of the process that made this has it."""
        return os.getpid() != self._process

    def add_worker(self) -> Member:
        """Start one more worker; return it once it is registered.

        Raises:
            ConfigError: when it ended at its start; its own message is on stderr.
            WaitedTooLong: when it did not register within 30 s.
            Closed: before the start, and after `stop`.
        """
        (worker,) = self._start_workers(1, time.monotonic() + START_WITHIN)
        return worker

    def _start_workers(self, count: int, deadline: float) -> list[Member]:
        slots, address = self._worker_config.slots or SLOTS, self.dispatcher.address
        config = replace(self._worker_config, dispatcher_address=address, slots=slots)
        if config.total_buffer_bytes is None:  # they share this machine's memory
            config = replace(config, total_buffer_bytes=buffer_size(self._count))
        with self._lock:
            if self._closed:
                raise Closed("this cluster was stopped; make another one")
            first = len(self.workers)
            new = [
                Member(
                    "penstock_worker",
                    f"worker {first + i}",
                    to_env(config),
                    START_WITHIN,
                    config.drain,
                    self._servers,
                )
                for i in range(count)
            ]
            self.workers += new
            pipes = [worker.launch() for worker in new]
        missing = []
        for worker, pipe in zip(new, pipes, strict=True):
            try:
                worker.wait_ready(pipe, deadline)
            except WaitedTooLong:
                missing.append(worker.name)
        if missing:
            raise WaitedTooLong(
                f"{', '.join(missing)} did not register with the dispatcher at "
                f"{self.dispatcher.address} within {START_WITHIN:g} s"
            )
        return new


if sys.platform != "win32":
    import fcntl

PREFIX, OWNER, LOCK = "penstock-", "owner", "lock"
"""How names of temporary folders begin; the file in one that its owner has locked, and the one that
its dispatcher has."""


def given_folder(path: str | Path) -> Path:
    """Return *path* as a folder that is there.

    Raises:
        ConfigError: when there is none, and it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(
            f"work_dir {str(path)!r} cannot be made ({exc}): give a folder that can be written to"
        ) from exc
    return folder


def temporary_folder() -> Path:
    """Return a new folder, which `remove_temporary` removes.

    If this process is killed first, the next one that wants a folder removes it.

    Raises:
        ConfigError: when no folder for temporary files can be written to.
    """
    try:
        _remove_abandoned(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        _OWNED[folder] = _locked(folder)
    except OSError as exc:
        raise ConfigError(
            f"there is no folder for the dispatcher's files ({exc}): give work_dir, a folder that "
            "can be written to, or name one in the variable TMPDIR"
        ) from exc
    return folder


def remove_temporary(folder: Path) -> None:
    """Remove *folder*, which `temporary_folder` returned. Idempotent."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = _OWNED.pop(folder, None)
    if lock is not None:
        os.close(lock)


_OWNED: dict[Path, int] = {}
"""The temporary folders of this process, each with the file by which it is locked."""


def _locked(folder: Path) -> int:
    """Lock *folder* for as long as this process lives; return the open file that does it."""
    new = folder / f"{OWNER}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.rename(folder / OWNER)  # nobody finds it before it is locked
    return lock


def _remove_abandoned(folder: Path) -> None:
    """Remove this user's temporary folders whose processes were killed."""
    for left in folder.glob(f"{PREFIX}*/{OWNER}"):
        with suppress(OSError):
            if (
                left.stat().st_uid == os.getuid()
                and _is_free(left)
                and _is_free(left.parent / LOCK)
            ):
                shutil.rmtree(left.parent, ignore_errors=True)


def _is_free(file: Path) -> bool:
    """Return whether no process has locked *file*."""
    try:
        opened = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(opened)
    return True
