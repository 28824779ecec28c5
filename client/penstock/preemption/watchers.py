"""Whether this machine is to be taken away, as its platform says.

Each watcher is a question that is asked again and again; `detected` finds the one that fits,
without a network. Sources: the platforms' pages on maintenance events and preemption (GCE), spot
instance interruption notices with IMDSv2 (AWS), and Scheduled Events (Azure).
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

ANSWER_WITHIN = 2.0
"""Seconds that a metadata server gets to answer."""

RESTART_ON_GCE, RESTART = 143, 42
"""Exit codes by which platforms know that a job is to be started again."""

TOKEN_LASTS = 300
"""Seconds for which a token of AWS is asked for."""

DMI = Path("/sys/class/dmi/id")


Fetch = Callable[[str, Mapping[str, str], str], str | None]
"""Returns the text at a URL, asked with headers and a method; None if there is nothing."""


def fetch(url: str, headers: Mapping[str, str], method: str = "GET") -> str | None:
    """Return the text at *url*, or None if there is none (404).

    Raises:
        OSError: when nobody answers.
    """
    request = urllib.request.Request(url, headers=dict(headers), method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN) as answer:  # noqa: S310
            body: bytes = answer.read()
    except urllib.error.HTTPError as exc:
        with exc:
            if exc.code == 404:
                return None
        raise
    return body.decode("utf-8", "replace")


@dataclass
class Watcher(ABC):
    """Asks the metadata server of a platform."""

    server: str = "http://169.254.169.254"
    ask: Fetch = fetch
    name: ClassVar[str]
    exit_code: ClassVar[int] = RESTART
    every: ClassVar[float] = 5.0
    """Seconds between two questions."""

    @abstractmethod
    def notice(self) -> bool:
        """Return whether this machine is to be taken away."""


@dataclass
class GoogleCloud(Watcher):
    """A GCE or GKE machine that is preempted, or whose host is to be maintained."""

    name: ClassVar[str] = "gce"
    exit_code: ClassVar[int] = RESTART_ON_GCE

    def notice(self) -> bool:
        """Return whether the machine is preempted, or ends for maintenance."""
        base, said = f"{self.server}/computeMetadata/v1/instance", {"Metadata-Flavor": "Google"}
        preempted = self.ask(f"{base}/preempted", said, "GET")
        if preempted is not None and preempted.strip().upper() == "TRUE":
            return True
        event = self.ask(f"{base}/maintenance-event", said, "GET")
        return event is not None and event.strip() == "TERMINATE_ON_HOST_MAINTENANCE"


@dataclass
class AmazonSpot(Watcher):
    """A spot instance that is to be stopped, hibernated or ended."""

    name: ClassVar[str] = "aws"
    _token: str | None = field(default=None, init=False, repr=False)

    def notice(self) -> bool:
        """Return whether an action on the instance is announced; its token is renewed as needed."""
        for _ in range(2):
            if self._token is None:
                lasts = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_LASTS)}
                self._token = self.ask(f"{self.server}/latest/api/token", lasts, "PUT")
            said = {"X-aws-ec2-metadata-token": self._token or ""}
            try:
                url = f"{self.server}/latest/meta-data/spot/instance-action"
                return self.ask(url, said, "GET") is not None
            except urllib.error.HTTPError as exc:
                if exc.code != 401:
                    raise
                self._token = None
        return False


@dataclass
class AzureEvents(Watcher):
    """An Azure machine that is to be preempted, ended, redeployed or restarted."""

    name: ClassVar[str] = "azure"
    every: ClassVar[float] = 1.0

    def notice(self) -> bool:
        """Return whether such an event is scheduled."""
        url = f"{self.server}/metadata/scheduledevents?api-version=2020-07-01"
        answer = self.ask(url, {"Metadata": "true"}, "GET")
        events = json.loads(answer or "{}").get("Events", [])
        ends = {"Preempt", "Terminate", "Redeploy", "Reboot"}
        return any(event.get("EventType") in ends for event in events)


def detected(
    env: Mapping[str, str] | None = None, dmi: Path = DMI, ask: Fetch = fetch
) -> Watcher | None:
    """Return the watcher of the platform that this machine is of, or None; asks nobody.

    Signals are watched in any case: SIGTERM, and SIGUSR1 of a task of Slurm.
    """
    variables = os.environ if env is None else env
    if "PENSTOCK_NO_PLATFORM" in variables:
        return None
    vendor = _text(dmi / "sys_vendor")
    if "Google" in vendor:
        return GoogleCloud(ask=ask)
    if "Amazon EC2" in vendor:
        return AmazonSpot(ask=ask)
    if "Microsoft Corporation" in vendor and "Virtual Machine" in _text(dmi / "product_name"):
        return AzureEvents(ask=ask)
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
