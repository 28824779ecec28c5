"""The dispatcher: it knows all jobs, tasks, workers and readers, and decides who runs what.

Read `core` first: it holds every decision. `service` gives it streams and a clock, `outbox` is
what those streams are made of, `definitions` keeps pipelines, `config` the settings, `server` a
dispatcher inside a process, `__main__` a process.
"""

from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import DispatchServer

__all__ = ["DispatchServer", "DispatcherConfig"]
