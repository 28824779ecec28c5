"""Savers, workers and readers of one folder: they die, stand still, and take over from others.

They run the real code of saves and of loads. The folder is on a disk that is full for moments, or
in a store that refuses, does what it said it did not, and lies in its listings.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from unittest.mock import patch

from penstock.dataset import local_save, saving
from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.rows import elements_of
from penstock.errors import (
    DatasetError,
    FileChanged,
    MissingFile,
    SaveIncomplete,
    Superseded,
    TransformError,
    WaitedTooLong,
)
from penstock.ops import follow, write_chunks
from penstock.ops.follow import Follow
from penstock.protocol.recording import SaveStage
from penstock.saved import folder, manifest, receipts, recording, upkeep
from penstock.saved.manifest import SavedVersions, SaveOptions
from penstock.saved.receipts import NEW
from penstock.saved.recording import Recording
from penstock.saved.upkeep import leftovers
from simulation import storm
from simulation.saved_job import LateBlocks, ModelReceipts
from simulation.saved_laws import Versions, counts_of_chunks
from simulation.saved_stage import Killed, Program, Stage, StageClock, StageSecrets, Weather
from simulation.saved_store import StageFolder, StageOs, StageStore, stage_path
from simulation.world import LawBroken

PEACE = 20.0
MOST = 400.0
MEMORY = Path("/dev/shm")
MOST_SAVERS = 40


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What is saved, by whom, and what goes wrong."""

    seed: int
    remote: bool
    lies: bool
    order: str
    format: str
    size: int
    parts: tuple[tuple[int, int], ...]
    chunk_bytes: int
    chunk_seconds: float
    haste: float
    """How often versions are committed: the seconds that a saver's clock has in one."""
    starts: tuple[float, ...]
    """When savers begin, whether or not another one runs."""
    overwrite: float
    """When somebody saves another dataset in the place of this one; 0 is never."""
    cancel: float
    followers: int
    looks: tuple[float, ...]
    """When somebody reads a version by its number."""
    tidied: tuple[float, ...]
    """When somebody deletes what no version needs."""
    errors: dict[int, float]
    """Elements that cannot be made until some moment."""
    weather: Weather

    @classmethod
    def draw(cls, seed: int) -> SavedPlan:
        """Draw a plan."""
        chance = Random(f"saved {seed}")
        some, count = chance.random, chance.randint
        size, remote, calm = count(5, 40), some() < 0.5, some() < 0.1
        cuts = sorted({0, size, *(count(0, size) for _ in range(count(0, 3)))})
        more = 1 + storm.current().faults / 10
        rate = 0.0 if calm else chance.choice((0.002, 0.006, 0.015)) * more
        return cls(
            seed,
            remote,
            remote and some() < 0.3,
            chance.choice(("split", "any")),
            Random(-seed).choice(("arrow", "arrow", "parquet")),
            size,
            tuple(zip(cuts, cuts[1:], strict=False)),
            chance.choice((24, 64, 160, 1 << 20)),
            chance.choice((0.05, 0.3, 10.0)),
            chance.choice((0.003, 0.03, 1.0)),
            tuple(chance.uniform(0, 12) for _ in range(chance.choice((0, 0, 1, 1, 2, 3)))),
            chance.uniform(0.2, 14) if some() < 0.2 else 0.0,
            chance.uniform(0.5, 8) if some() < 0.2 else 0.0,
            count(0, 2),
            tuple(sorted(chance.uniform(0.5, 18) for _ in range(count(0, 3)))),
            tuple(chance.uniform(0.5, 18) for _ in range(count(0, 3))),
            {count(0, size - 1): chance.uniform(1, 10)} if some() < 0.2 else {},
            Weather(
                kill=rate,
                refuse=rate * chance.choice((0, 1, 3)),
                lose=rate * 2 if remote else 0.0,
                late=rate if remote else 0.0,
                pause=rate,
            ),
        )


class SavedMesh:
    """One schedule."""

    def __init__(self, plan: SavedPlan, path: Path, *, trace: bool = False) -> None:
        self.plan, self.path = plan, path
        self.stage = Stage(plan.seed, plan.weather, PEACE, trace=trace)
        self.wanted = [range(plan.size), range(1000, 1000 + plan.size)]
        self.versions = Versions(path, self.wanted)
        self._number = 0
        self.savers: list[Program] = []
        self._is_done = False
        self._followers: list[Program] = []

    def run(self) -> Counter[str]:
        """Run it, and judge."""
        plan, stage = self.plan, self.stage
        with ExitStack() as stack:
            self._set(stack)
            stack.callback(stage.close)
            self._begin_saver(0.0)
            for start in plan.starts:
                self._begin_saver(start)
            if plan.overwrite:
                stage.at(plan.overwrite, lambda: self._begin_saver(0.0, other=True))
            for when in plan.tidied:
                stage.at(when, lambda: stage.begin("gc", self._tidy))
            for number in range(plan.followers):
                self._follow(f"follower {number}", stage.chance.uniform(0, 5), None, None, [])
            for when in plan.looks:
                stage.at(when, self._look_at_a_version)
            stage.at(1.0, self._keep_saving)
            if not stage.run(lambda: self._is_done, self._look, MOST):
                raise LawBroken("it does not end")
            self._judge()
        stage.stats["versions"] += len(self.versions.all)
        stage.stats["elements"] += plan.size
        return stage.stats

    def _set(self, stack: ExitStack) -> None:
        """Have the real code use the stage's clock, its folders and its chance."""
        stage, plan = self.stage, self.plan
        logging.disable(logging.CRITICAL)  # which files stay is what this tries
        stack.callback(logging.disable, logging.NOTSET)
        if plan.remote:
            store = StageStore(stage, self.path, lies=plan.lies)
            made = partial(StageFolder, stage, store)
            stack.enter_context(patch.object(folder, "_LocalFolder", made))
        else:
            stack.enter_context(patch.object(folder, "os", StageOs(stage)))
            stack.enter_context(patch.object(folder, "Path", stage_path(stage)))
            stack.enter_context(patch.object(folder, "secrets", StageSecrets(stage)))
        for module in (follow, manifest, recording, upkeep):
            stack.enter_context(patch.object(module, "time", StageClock(stage)))
        stack.enter_context(patch.object(write_chunks, "time", StageClock(stage, 0.05)))
        for module in (local_save, receipts, manifest):
            stack.enter_context(patch.object(module, "secrets", StageSecrets(stage)))
        stack.enter_context(patch.object(write_chunks, "BlockSizer", self._sizer))
        blocks = LateBlocks(stage)
        stack.enter_context(patch.object(write_chunks, "ThreadPool", lambda *_: blocks))
        stack.enter_context(patch.object(write_chunks, "wait", blocks.wait))
        stack.enter_context(patch.object(local_save, "BlockReader", self._receipts))
        stack.enter_context(patch.object(local_save, "Recording", self._recording))

    def _sizer(self, most: int) -> object:
        chance = self.stage.chance

        class Sizes:
            def read(self, source, most):
                return source.block(chance.randint(1, 5))

        return Sizes()

    def _receipts(self, node: write_chunks.WriteChunks, state: object) -> ModelReceipts:
        first = node.upstream.start
        parts = [(first + start, first + stop) for start, stop in self.plan.parts]
        errors = {first + number: until for number, until in self.plan.errors.items()}
        receipts = ModelReceipts(self.stage, node, state, parts, errors)
        return receipts if self.plan.order == "split" else receipts.shuffled()

    def _recording(
        self, its_folder: folder.SaveFolder, version: object, **more: object
    ) -> Recording:
        stage, haste = self.stage, self.plan.haste
        return Recording(its_folder, version, clock=lambda: stage.now * haste, **more)

    def _begin_saver(self, delay: float, *, other: bool = False, safe: bool = False) -> None:
        self._number += 1
        name = f"saver {self._number}"
        program = self.stage.begin(name, lambda: self._save(name, other=other), delay)
        program.is_safe = safe
        self.savers.append(program)

    def _save(self, name: str, *, other: bool) -> None:
        plan, stage, latest = self.plan, self.stage, self.versions.latest
        wanted = (
            self.wanted[1] if other else self.versions.wanted(latest) if latest else self.wanted[0]
        )
        dataset = Dataset.range(wanted.start, wanted.stop)
        options = SaveOptions(plan.format, None, plan.chunk_bytes, plan.order)
        try:
            job = saving.job_of(
                dataset, self.path, options, plan.chunk_seconds, overwrite=other, divided=_as_it_is
            )
            if plan.cancel and stage.now < plan.cancel:
                stage.at(plan.cancel - stage.now, job._cancelled.set)
            job.run()
            stage.note(name, f"ends as {job.manifest().stage}")
        except Superseded as exc:
            stage.stats["superseded"] += 1
            stage.note(name, exc)
        except (DatasetError, TransformError, MissingFile) as exc:
            stage.stats["saves failed"] += 1
            stage.note(name, f"fails: {exc}")
            if "is gone" in str(exc):
                raise LawBroken(f"{name} misses a file that nobody deleted: {exc}") from exc
            if stage.current and stage.current.is_safe:
                raise

    def _keep_saving(self) -> None:
        """Start a saver, if there is none; at last one to which no fault comes."""
        stage = self.stage
        running = [one for one in self.savers if not one.ended and not one.dead]
        if stage.now > PEACE + 2.0:
            self._end()
            return
        if not running and len(self.savers) < MOST_SAVERS:
            self._begin_saver(stage.chance.uniform(0, 1.0))
        stage.at(stage.chance.uniform(0.5, 2.0), self._keep_saving)

    def _end(self) -> None:
        """Have a last saver complete the save."""
        self._begin_saver(0.0, safe=True)
        last = self.savers[-1]

        def over() -> None:
            if not last.ended:
                self.stage.at(0.5, over)
            elif not self._is_complete:  # another saver has taken over, and was killed before
                self._end()
            elif all(one.ended or one.dead for one in self._followers):
                self._is_done = True
            else:
                self.stage.at(0.5, over)

        over()

    @property
    def _is_complete(self) -> bool:
        latest = self.versions.latest
        return latest is not None and latest.manifest.stage is SaveStage.COMPLETE

    def _tidy(self) -> None:
        """Do as ``penstock saves gc`` does."""
        its = folder.folder_of("saves", str(self.path))
        try:
            newest = SavedVersions("saves", its).latest()
            if newest is not None and newest.manifest.stage is SaveStage.COMPLETE:
                for name in leftovers(its, newest):
                    its.delete(name)
        except (OSError, DatasetError) as exc:
            self.stage.note("gc", exc)

    def _follow(
        self, name: str, delay: float, state: object, save_id: str | None, rows: list[int]
    ) -> None:
        """Follow the save; again from a mark, when this one was killed."""
        stage = self.stage
        reached: list[tuple[object, list[int]]] = [(state, rows)]

        def act() -> None:
            try:
                self._read_on(name, state, rows, reached)
            finally:
                me = stage.current
                if me is not None and me.dead and stage.now < MOST and not self._is_done:
                    mark, had = stage.chance.choice(reached[-3:])
                    self._follow(name, 0.5, mark, None, list(had))

        self._followers.append(stage.begin(name, act, delay))

    def _read_on(
        self, name: str, state: object, rows: list[int], reached: list[tuple[object, list[int]]]
    ) -> None:
        stage, chance = self.stage, self.stage.chance
        rows = list(rows)
        while True:
            iterator = Follow(str(self.path), None).open(Context.local(0), state)
            try:
                while block := elements_of(iterator.rows(chance.randint(1, 9))):
                    rows += map(int, block)
                    back = chance.randint(0, len(block))
                    reached.append((iterator.mark()(back), rows[: len(rows) - back]))
                    stage.sleep(0.2 * chance.random())
                    if stage.now < PEACE and chance.random() < 0.01:
                        stage.told("follower killed", name)
                        stage.current.kill()
                        raise Killed
                self._judge_followed(name, rows, iterator._save_id)
                return
            except (SaveIncomplete, WaitedTooLong) as exc:
                stage.stats["followers told of an end"] += 1
                state = iterator.mark()(0)
                stage.note(name, exc)
                stage.sleep(1.0)
            except (FileChanged, MissingFile) as exc:
                stage.note(name, exc)
                if not self.versions.is_replaced(iterator._save_id):
                    raise LawBroken(f"{name} of a save that nobody replaced: {exc}") from exc
                state, rows = None, []
                reached[:] = [(None, [])]
            except DatasetError as exc:
                state = iterator.mark()(0)
                stage.note(name, exc)
                if stage.now > PEACE:
                    raise
                stage.sleep(0.5)
            finally:
                iterator.close()

    def _judge_followed(self, name: str, rows: list[int], save_id: str) -> None:
        if rows != self.versions.rows(save_id):
            raise LawBroken(f"{name} got {rows}, and not {self.versions.rows(save_id)}")
        self.stage.stats["followed to the end"] += 1

    def _look_at_a_version(self) -> None:
        if not self.versions.all:
            return
        version = self.stage.chance.choice(self.versions.all)
        self.stage.begin(
            f"reader of {version.manifest.version}", lambda: self._load(version.manifest.version)
        )

    def _load(self, number: int) -> None:
        its = self.versions.all[number - 1].manifest
        wanted = self.versions.rows(its.save_id)[: self.versions.counts[number - 1]]
        try:
            iterator = Dataset.load(self.path, at=number).node.open(Context.local(0), None)
            rows: list[int] = []
            while block := elements_of(iterator.rows(7)):
                rows += map(int, block)
                self.stage.sleep(0.1)
        except (MissingFile, FileChanged, TransformError) as exc:
            if not self.versions.is_replaced(its.save_id):
                raise LawBroken(f"version {number} of the save cannot be read: {exc}") from exc
            return
        except DatasetError as exc:  # the disk or the store
            self.stage.note("reader", exc)
            return
        if rows != wanted:
            raise LawBroken(f"version {number} has {wanted}, and a reader got {rows}")
        self.stage.stats["versions read"] += 1

    def _look(self) -> None:
        self.versions.look()
        for one in (*self.savers, *self._followers):
            if one.error is not None:
                raise one.error

    def _judge(self) -> None:
        self.stage.close()
        self.versions.look()
        self.versions.check_whole()
        self.versions.check_chunks()
        if self.plan.order == "split":
            sizes = [stop - start for start, stop in self.plan.parts]
            self.versions.check_bounds(counts_of_chunks(sizes, self.plan.chunk_bytes))
        latest, its = self.versions.latest, folder.folder_of("law", str(self.path))
        assert latest is not None
        if late := [name for name in self.versions.leftovers() if not self._may_stay(name)]:
            raise LawBroken(f"left over: {late}")
        self.stage.now += 2 * upkeep.GRACE
        for name in leftovers(its, latest):
            its.delete(name)
        self.versions.check_chunks()
        if stays := self.versions.leftovers():
            raise LawBroken(f"not tidied: {sorted(stays)}")

    def _may_stay(self, name: str) -> bool:
        """Return whether a file may be there: of workers that were fenced off, or not listed, or of
        a save that was replaced a moment ago."""
        return name.startswith(NEW) or self.plan.lies or name in self.versions.replaced


def _as_it_is(dataset: Dataset) -> Dataset:
    return dataset


def run(seed: int, *, trace: bool = False) -> Counter[str]:
    """Run one schedule."""
    plan = SavedPlan.draw(seed)
    if trace:
        print(plan)
    root = tempfile.mkdtemp(prefix="penstock-saved-", dir=MEMORY if MEMORY.is_dir() else None)
    path = Path(root) / "saved"
    try:
        return SavedMesh(plan, path, trace=trace).run()
    finally:
        shutil.rmtree(root)
