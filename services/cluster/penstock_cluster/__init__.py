"""A dispatcher and its workers together, as processes on this machine: `LocalCluster`."""

from penstock_cluster.local import LocalCluster
from penstock_cluster.member import Member
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import DispatchServer
from penstock_worker import WorkerConfig, WorkerServer

__all__ = [
    "DispatchServer",
    "DispatcherConfig",
    "LocalCluster",
    "Member",
    "WorkerConfig",
    "WorkerServer",
]
