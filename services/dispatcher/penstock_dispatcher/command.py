"""The command ``penstock-dispatcher``, which is also ``penstock dispatcher``."""

from __future__ import annotations

from penstock.runtime.service_command import service_app
from penstock_dispatcher.config import DispatcherConfig

app = service_app(DispatcherConfig, "Run a dispatcher until SIGTERM or Ctrl-C.")
