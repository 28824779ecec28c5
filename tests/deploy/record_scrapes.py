"""Records what Prometheus would scrape of a dispatcher while something goes wrong with its mesh.

    python -m tests.deploy.record_scrapes            # all: 25 minutes
    python -m tests.deploy.record_scrapes NAME ...

writes `scrapes/NAME.json`. `test_recorded_alerts.py` runs the alert rules on these. Record again
when metrics that rules ask for change, and look at what became of the values.

All is real: a `LocalCluster`, trainers in processes of their own, signals. Each recording begins
with half a minute in which all is well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import PenstockError
from penstock_cluster import LocalCluster
from penstock_cluster.cli.status import fetch
from penstock_dispatcher import DispatcherConfig

SCRAPES = Path(__file__).parent / "scrapes"

EVERY = 5.0
"""Seconds between two scrapes."""

WELL, AFTER = 6, 24
"""How many scrapes come before it goes wrong, and from then on."""

LEFT_OUT = (
    "penstock_decision_seconds",
    "penstock_journal_write_seconds",
    "penstock_calls",
    "penstock_build_info",
)
"""What no recording is about, and what differs from one run to the next."""

TRAINER = """
import sys, time
import numpy as np
from penstock import Dataset

blocks = len(sys.argv) > 3

def made(i):
    if blocks and i > 600:
        time.sleep(10**6)
    return np.full(100_000, i)

dataset = Dataset.range(10**9).map(made)
for element in dataset.distribute("distributed_epoch", sys.argv[1], sys.argv[2]):
    time.sleep(0.05)
"""
"""Elements are large: so buffers are read up soon after workers died."""


@dataclass
class Scene:
    """A cluster with two workers, and trainers that read one job."""

    cluster: LocalCluster
    trainers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_trainers(self, count: int, *more: str) -> None:
        """Start so many trainers, which get *more* arguments."""
        command = [sys.executable, "-c", TRAINER, self.cluster.target, "train", *more]
        self.trainers += [subprocess.Popen(command) for _ in range(count)]  # noqa: S603  ours

    def kill_workers(self, *which: int, by: signal.Signals = signal.SIGKILL) -> None:
        """Send workers a signal."""
        for one in which:
            pid = self.cluster.workers[one].pid
            assert pid is not None
            os.kill(pid, by)

    def kill_trainers(self, count: int, by: signal.Signals = signal.SIGKILL) -> None:
        """Send the first trainers a signal."""
        for trainer in self.trainers[:count]:
            trainer.send_signal(by)


@dataclass(frozen=True)
class Recording:
    """What happens: *trainers* read; *fault* is told how many scrapes the first fault is ago."""

    what: str
    trainers: int
    fault: Callable[[Scene, int], None]
    arguments: tuple[str, ...] = ()
    after: int = AFTER
    small: bool = False
    """Whether the dispatcher's files are on a file system of 4 MB: only root can mount one."""


def _once(do: Callable[[Scene], None]) -> Callable[[Scene, int], None]:
    return lambda scene, since: do(scene) if since == 0 else None


def _kill_again(scene: Scene, since: int) -> None:
    if since in (0, 4, 8, 12):
        scene.cluster.add_worker()
        scene.kill_workers(-2)


def _fill_disk(scene: Scene) -> None:
    with suppress(OSError), (scene.cluster.work_dir / "filled").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    # It waits for the dispatcher, which decides nothing.
    threading.Thread(target=_try_add_worker, args=(scene.cluster,), daemon=True).start()


def _try_add_worker(cluster: LocalCluster) -> None:
    with suppress(PenstockError):
        cluster.add_worker()


@contextmanager
def _small_disk() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)  # noqa: S603, S607  ours
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)  # noqa: S603, S607  ours


RECORDINGS = {
    "all_is_well": Recording("nothing goes wrong", 2, lambda *_: None),
    "worker_killed": Recording(
        "one of two workers is killed by SIGKILL", 2, _once(lambda s: s.kill_workers(0))
    ),
    "worker_stopped": Recording(
        "one of two workers is stopped by SIGSTOP",
        2,
        _once(lambda s: s.kill_workers(0, by=signal.SIGSTOP)),
    ),
    "all_workers_killed": Recording(
        "both workers are killed by SIGKILL", 2, _once(lambda s: s.kill_workers(0, 1))
    ),
    "workers_die_again": Recording(
        "four times, every 20 s, a worker comes and another one is killed", 2, _kill_again
    ),
    "reader_stopped": Recording(
        "one of two trainers is stopped by SIGSTOP",
        2,
        _once(lambda s: s.kill_trainers(1, signal.SIGSTOP)),
    ),
    "readers_killed": Recording(
        "seven of eight trainers are killed by SIGKILL", 8, _once(lambda s: s.kill_trainers(7))
    ),
    "all_readers_killed": Recording(
        "all trainers are killed by SIGKILL", 2, _once(lambda s: s.kill_trainers(2))
    ),
    "disk_full": Recording(
        "the dispatcher's disk is full, and a worker registers", 2, _once(_fill_disk), small=True
    ),
    "map_blocked": Recording(
        "a function that workers run does not return from element 600 on",
        1,
        lambda *_: None,
        ("block",),
        after=36,
    ),
}


@contextmanager
def staged(recording: Recording) -> Iterator[Scene]:
    """Start all that *recording* needs, and end it."""
    with ExitStack() as held:
        work_dir = held.enter_context(_small_disk()) if recording.small else None
        dispatcher = DispatcherConfig(http_port=0)
        cluster = LocalCluster(2, dispatcher=dispatcher, work_dir=work_dir)
        scene = Scene(held.enter_context(cluster))
        held.callback(_end, scene)
        scene.start_trainers(recording.trainers, *recording.arguments)
        yield scene


def _end(scene: Scene) -> None:
    for trainer in scene.trainers:
        trainer.kill()
        trainer.wait()
    for worker in scene.cluster.workers:
        if worker.pid is not None:
            os.kill(worker.pid, signal.SIGCONT)


def scrape(address: str) -> dict[str, float]:
    """Return what a scrape gets: values by series."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=20) as answer:  # noqa: S310  http
        text = answer.read().decode()
    return {
        _series(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        if family.name.startswith("penstock") and not family.name.startswith(LEFT_OUT)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def _series(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}" if inside else name


def record(name: str) -> None:
    """Make the recording *name* and write it."""
    recording, scrapes = RECORDINGS[name], []
    with staged(recording) as scene:
        address = json.loads(fetch(scene.cluster.target))["http"]
        _wait_for_readers(address, recording.trainers)
        began = time.monotonic()
        for number in range(WELL + recording.after):
            if number >= WELL:
                recording.fault(scene, number - WELL)
            time.sleep(max(0.0, began + (number + 1) * EVERY - time.monotonic()))
            scrapes.append(scrape(address))
    series = sorted(set().union(*scrapes))
    found = {one: in_short([each.get(one) for each in scrapes]) for one in series}
    told = {"what": recording.what, "every": EVERY, "well": WELL, "series": found}
    SCRAPES.mkdir(exist_ok=True)
    (SCRAPES / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")


def _wait_for_readers(address: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while scrape(address).get('penstock_readers{job_name="train"}') != count:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def in_short(values: list[float | None]) -> str:
    """Return *values* in the notation of promtool; one that is gone is stale, and then missing.

    >>> in_short([None, None, 1.0, 1.0, 1.0, 0.25, None, None])
    '_x2 1x2 0.25 stale _'
    """
    said, known = [], False
    for value, run in groupby(values):
        many = len(list(run))
        if value is None:
            if known:
                said.append("stale")
                many -= 1
            known = False
            said += [_repeated("_", many)] if many else []
            continue
        known = True
        said.append(_repeated(f"{value:.12g}", many))
    return " ".join(said)


def _repeated(value: str, count: int) -> str:
    if count == 1:
        return value
    return f"{value}x{count if value == '_' else count - 1}"


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RECORDINGS:
        record(wanted)
