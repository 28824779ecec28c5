"""Datasets that workers save while all fail, and others follow; what must be in the folder."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from chaos import limits
from chaos.acts import Act, Undo, nothing
from chaos.mesh import Mesh, Reader
from chaos.plan import Between, Fault, Kind, Life, Plan, Saved, Whose
from chaos.proxy import Link
from penstock.dataset.dataset import Dataset
from penstock.protocol.recording import SaveStage
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions
from penstock.saved.upkeep import damage, leftovers
from tests.storage.stand_in import Bucket, served

ASCENDING = frozenset({"range", "batch"})
"""The pipelines whose order is that of their ids."""

FOLLOWER = "follower"

MOST_WRITES = 12
"""A process that is to die at a write dies at one of so many."""

MOST_ASKING = 3

MOST_DEATHS = 6
"""So many processes of a kind die at a write in one life: more without a new version are an error,
rightly."""


@dataclass(frozen=True)
class Place:
    """Where a dataset is saved."""

    path: str
    bucket: Bucket | None = None
    disk: Path | None = None
    """The small disk that the folder is on, if it is on one."""

    @property
    def env(self) -> dict[str, str]:
        """What processes must know to reach it."""
        if self.bucket is None:
            return {}
        return self.bucket.env | {"AWS_ALLOW_HTTP": "true"}

    def at_hand(self, folder: Path) -> str:
        """Return a local path with all files, as they are; *folder* is for copies."""
        if self.bucket is None:
            return self.path
        with self.bucket.lock:
            objects = dict(self.bucket.objects)
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in objects.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        return str(folder / self.path.removeprefix("s3://"))


@contextmanager
def place_of(plan: Plan, folder: Path) -> Iterator[Place | None]:
    """Have a place for the dataset that is saved in *plan*, if one is."""
    if not isinstance(plan.sharing, Saved):
        yield None
        return
    with ExitStack() as stack:
        if plan.sharing.remote:
            yield Place("s3://data/some/saved", stack.enter_context(served()))
            return
        disk = None
        if plan.has(Kind.STORE) and stack.enter_context(limits.small_disk(folder)):
            disk = folder
        yield Place(str(folder / "saved"), None, disk)


class SavesAct(Act):
    """Who asks for one save, which goes on when they are gone, and readers that follow."""

    def __init__(self, mesh: Mesh, sharing: Saved, place: Place) -> None:
        super().__init__(mesh)
        self._sharing, self._place = sharing, place
        self._away = 0
        """How many of those who ask are to be back later."""
        self._died: Counter[Whose] = Counter()
        """How many processes were told to die at a write."""

    def begin(self, life: Life, restore: Path | None) -> None:
        """Start one who asks, and all that follow."""
        self._save()
        for number in range(self._sharing.followers):
            self.mesh.add_follower(f"{FOLLOWER} {number}")

    @property
    def progress(self) -> int:
        """See `Act.progress`."""
        return max((n for r in self._writing for kind, n in r.records() if kind == "d"), default=0)

    @property
    def has_begun(self) -> bool:
        """See `Act.has_begun`."""
        return any(reader.written for reader in self._writing)

    @property
    def at_end(self) -> bool:
        """Whether the save is complete, and all who follow saw its end."""
        readers = self.mesh.readers
        return (
            self._is_complete
            and all(r.saw_end for r in self._followers)
            and not any(r.process.alive for r in readers)
        )

    def settle(self) -> None:
        """Have somebody ask, if nobody does and nobody is to be back."""
        if not self._away and not self._is_complete and not self._running:
            self._save()

    def restore_readers(self) -> None:
        """Have all who are needed."""
        self.settle()
        for reader in self._followers:
            self._again(reader)

    @property
    def _writing(self) -> list[Reader]:
        return [r for r in self.mesh.readers if not r.process.name.startswith(FOLLOWER)]

    @property
    def _followers(self) -> list[Reader]:
        return [r for r in self.mesh.readers if r.process.name.startswith(FOLLOWER)]

    @property
    def _running(self) -> list[Reader]:
        return [r for r in self._writing if r.process.alive]

    @property
    def _is_complete(self) -> bool:
        return any(r.saw_end for r in self._writing)

    def _save(self) -> None:
        self.mesh.add_saver()

    def _again(self, reader: Reader) -> float | None:
        """Have one who follows go on, from where it was; or say that it takes its time to leave."""
        if reader.process.alive:
            return 0.2 if reader.leaving else None
        reader.leaving = False
        if not reader.saw_end:
            reader.forget()
            reader.process.start()
        return None

    def _may_leave(self, reader: Reader, live: Sequence[Reader]) -> bool:
        return True

    def _add(self, fault: Fault, reader: Reader | None) -> Undo | None:
        """Have another one ask for the same save."""
        if len(self._running) >= MOST_ASKING or self._is_complete:
            return None
        self._save()
        return nothing

    def _gone(self, fault: Fault, reader: Reader) -> Undo:
        if reader in self._followers:
            return lambda: self._again(reader)
        self._away += 1

        def back() -> float | None:
            if reader.process.alive:  # told to leave, it takes its time
                return 0.2
            self._away -= 1
            return None

        return back

    def _links(self, between: Between) -> Sequence[Link]:
        if between is Between.READER_DISPATCHER:
            return [r.up for r in self._running]
        return super()._links(between)

    def _store(self, fault: Fault) -> Undo | None:
        bucket, chance = self._place.bucket, Random(fault.target)
        if bucket is None:
            if self._place.disk is None:
                return None
            undo = limits.fill(self._place.disk)
            self.mesh.limits.append(undo)
            return undo
        how = ("503", "lost", "")[fault.target % 3 :]

        def drawn(_: int) -> str:
            return chance.choice(how)

        bucket.write_fault = drawn
        bucket.fault = lambda _: "503" if "503" in how and chance.random() < 0.5 else ""

        def restore() -> None:
            bucket.write_fault = bucket.fault = None

        return restore

    def _die_at_write(self, fault: Fault) -> Undo | None:
        number, when = 1 + fault.target % MOST_WRITES, "after" if fault.hours > 0 else "before"
        whose = Whose.WORKER if fault.whose is Whose.WORKER else Whose.READER
        if self.mesh.dying.exists() or self._is_complete or self._died[whose] == MOST_DEATHS:
            return None
        self._died[whose] += 1
        self.mesh.dying.write_text(f"{number} {when} {whose.value}")
        return nothing


def check(plan: Plan, place: Place, mesh: Mesh) -> Iterator[str]:
    """Yield what is wrong in the folder, and with what was read from it."""
    path = place.at_hand(mesh.folder / "copy")
    folder = folder_of("load", path)
    version = SavedVersions("load", folder).latest()
    if version is None or version.manifest.stage is not SaveStage.COMPLETE:
        yield f"the save is {version and version.manifest.stage}"
        return
    yield from damage(folder, version)
    rows = [int(i) for element in Dataset.load(path) for i in np.ravel(element)]
    wanted = Counter(range(plan.elements))
    if missing := wanted - Counter(rows):
        yield f"{missing.total()} ids are missing: {sorted(missing)[:12]}"
    if extra := Counter(rows) - wanted:
        yield f"{extra.total()} ids are there twice: {sorted(extra)[:12]}"
    assert isinstance(plan.sharing, Saved)
    if plan.sharing.order == "split" and plan.pipeline in ASCENDING and rows != sorted(rows):
        yield f"ids are not in order: {rows[:50]}"
    for reader in mesh.readers:
        if reader.process.name.startswith(FOLLOWER):
            reader.forget()  # it may have cut its log
            taken = [n for kind, n in reader.records() if kind == "t"]
            if taken != rows:
                at = next(
                    (i for i, (a, b) in enumerate(zip(taken, rows, strict=False)) if a != b), -1
                )
                yield f"{reader.process.name} took {len(taken)} of {len(rows)} ids, wrong from {at}"
    yield from _tidied(path)


def _tidied(path: str) -> Iterator[str]:
    """Yield which files stay when the folder was tidied."""
    folder = folder_of("load", path)
    version = SavedVersions("load", folder).latest()
    assert version is not None
    for name in leftovers(folder, version):
        folder.delete(name)
    listed = {Path(path, name) for name in version.names}
    for file in Path(path).rglob("*"):
        if file.is_file() and file not in listed and not file.match("_penstock/v*.json"):
            yield f"left over: {file}"
    yield from damage(folder, version)


def told(readers: Iterable[Reader]) -> Counter[str]:
    """Return what those who ask were told, and how often."""
    words = {"x": "saves begun again", "l": "cancelled or left"}
    return Counter(
        words[kind] for reader in readers for kind, _ in reader.records() if kind in words
    )
