"""The dispatcher: it knows all jobs, tasks, workers and readers, and decides who runs what.

Read `core` first: it holds every decision. `service` gives it streams and a clock, `performer`
carries its effects out, through `outbox` (streams) and `calls`. `journal` keeps its facts on disk,
`deferred` events while that is blocked. `definition_store` and `listing_store` keep pipelines and
names of files, `config` is the settings, `server` a dispatcher inside a process, `__main__` a
process.
"""

from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import DispatchServer

__all__ = ["DispatchServer", "DispatcherConfig"]
