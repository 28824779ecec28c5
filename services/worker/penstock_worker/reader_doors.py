"""The doors of a worker besides its gRPC port, and what readers are told about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from penstock.credentials.entrance import Entrance
from penstock.protocol.nearness import SHARED_MEMORY, TCP, WorkerProfile
from penstock.runtime.linux import boot_id
from penstock_worker import shm_door, tcp_door
from penstock_worker.config import TRANSPORTS, WorkerConfig
from penstock_worker.linked_reader import Lender
from penstock_worker.runners import ActiveRunners
from penstock_worker.shm_door import ShmDoor
from penstock_worker.tcp_door import TcpDoor


@contextmanager
def opened(config: WorkerConfig, entrance: Entrance) -> Iterator[ReaderDoors]:
    """Open the doors that *config* and the system allow.

    Raises:
        ConfigError: if *config* names a door that cannot be opened.
    """
    with (
        shm_door.opened(config.socket_dir) as shm,
        tcp_door.opened(config.host, config.data_port, entrance) as tcp,
    ):
        yield ReaderDoors(shm, tcp)


@dataclass(frozen=True, slots=True)
class ReaderDoors:
    """The doors for readers on this host and for all readers, each None if there is none."""

    shm: ShmDoor | None
    tcp: TcpDoor | None

    def profile(self, tensorflow: str) -> WorkerProfile:
        """Return what readers are told about the doors, and about *tensorflow*'s port."""
        told = WorkerProfile(boot_id=boot_id(), transports=TRANSPORTS, tensorflow=tensorflow)
        if self.shm is not None:
            names = (*told.transports, SHARED_MEMORY)
            place, token = self.shm.path, self.shm.token
            told = replace(told, transports=names, shm_socket=place, shm_token=token)
        if self.tcp is not None:
            names = (*told.transports, TCP)
            port, token = self.tcp.port, self.tcp.token
            told = replace(told, transports=names, data_port=port, data_token=token)
        return told

    def serve(self, worker: Lender, runners: ActiveRunners, bounds: WorkerConfig) -> None:
        """Let readers in from now on, within *bounds*."""
        for door in (self.shm, self.tcp):
            if door is not None:
                door.serve(worker, runners, bounds)
