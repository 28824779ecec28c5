"""The command ``penstock-worker``, which is also ``penstock worker``."""

from __future__ import annotations

from penstock.runtime.service_command import service_app
from penstock_worker.config import WorkerConfig

HELP = """Run a worker until SIGTERM or Ctrl-C; it then hands its tasks to other workers.

A second signal stops it at once."""

app = service_app(WorkerConfig, HELP)
