"""The format of `state()` of an iterator over jobs: JSON, the same for every reader of the jobs.

    {"v": 3, "pipeline": "0batch 1distribute", "passes": {path of a repeat: pass},
     "jobs": {path of a distribute: [{"passes": [numbers], "state": a job's state}, ...]},
     "operators": state of the operators after `distribute` (see `operators_state`), or null}

Version 2 has no operators, so the operators start from the beginning.

The dispatcher makes a job's state (in its ``core/job_state.py``). Of a pass that is over, only the
name is kept. Paths are those of the graph on the training side. A dataset with other operators
there has other paths; saved jobs are then matched by their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.engine.iterator import State
from penstock.errors import PenstockError, StateError
from penstock.protocol.malformed import MALFORMED, glimpse
from penstock.runtime.versions import versions

PassNumbers: TypeAlias = tuple[tuple[str, int], ...]
"""The passes of the enclosing `repeat`s: see `penstock.engine.context.Context.passes`."""

VERSION = 3
"""The version of the format; datasets without `distribute` have version 1."""

_READ = (2, VERSION)

_POLICIES = {"off": "parallel_epochs", "dynamic": "distributed_epoch"}


@dataclass(frozen=True, slots=True)
class SavedJob:
    """One pass of a job: which job, and, unless it is *finished*, the *state* to restore."""

    fingerprint: str
    mode: str
    job: str | None
    repetition: int
    finished: bool = False
    state: State = None

    def ended(self) -> SavedJob:
        """Return the same pass, finished."""
        return SavedJob(self.fingerprint, self.mode, self.job, self.repetition, finished=True)

    def check(self, fingerprint: str, mode: str) -> None:
        """Check that a dataset with this *fingerprint* and *mode* may continue from this pass.

        Raises:
            StateError: saying what differs.
        """
        if self.mode != mode:
            raise StateError(
                f"the state was saved of a job read with processing_mode "
                f"{_POLICIES.get(self.mode, self.mode)!r}, this dataset is read with "
                f"{_POLICIES.get(mode, mode)!r}"
            )
        if self.fingerprint != fingerprint:
            raise StateError(
                "the state was saved of another dataset: before distribute(...) that had the "
                f"fingerprint {self.fingerprint}, this one has {fingerprint}. Give it the same "
                "operators, parameters, functions and data. Functions are the same under one minor "
                f"version of Python only: this is {versions().minor}"
            )

    def plain(self) -> State:
        """Return it as JSON."""
        if not self.finished:
            return self.state
        return {
            "kind": "job",
            "fingerprint": self.fingerprint,
            "mode": self.mode,
            "job": self.job,
            "repetition": self.repetition,
            "finished": True,
        }

    @classmethod
    def of(cls, state: Any) -> SavedJob:
        """Read a job's state.

        Raises:
            StateError: when *state* is something else.
        """
        match state:
            case {
                "kind": "job",
                "fingerprint": str(fingerprint),
                "mode": str(mode),
                "job": str() | None as job,
                "repetition": int(repetition),
            }:
                saved = cls(fingerprint, mode, job, repetition, False, state)
                return saved.ended() if state.get("finished") else saved
        raise _malformed(state)

    @property
    def data(self) -> bytes:
        """The state as text.

        Raises:
            StateError: if it cannot be written: it is not JSON, or is nested without end.
        """
        try:
            return json.dumps(self.state, separators=(",", ":")).encode()
        except MALFORMED as exc:
            raise _malformed(self.state) from exc


@dataclass(frozen=True, slots=True)
class SavedPass:
    """One saved pass of one `distribute`."""

    path: str
    passes: PassNumbers
    job: SavedJob


@dataclass(frozen=True, slots=True)
class IteratorState:
    """The saved state of a pipeline: the pass of each `repeat`, and the jobs."""

    passes: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[SavedPass, ...] = ()
    operators: State = None
    """The operators of one reader: see `operators_state`."""
    pipeline: str = ""
    """The operators of the pipeline whose state was saved."""

    def job(self, path: str, passes: PassNumbers) -> SavedJob | None:
        """Return the saved job of that pass of the `distribute` at *path*.

        A pass before all saved passes is over.
        """
        parts = [part for part in self.parts if part.path == path]
        for part in parts:
            if part.passes == passes:
                return part.job
        if parts and passes < parts[0].passes:
            return parts[0].job.ended()
        return None

    def plain(self, pipeline: str, distributes: Sequence[str]) -> State:
        """Return the state as JSON, for a pipeline that has these *distributes*."""
        jobs: dict[str, list[State]] = {path: [] for path in distributes}
        for part in self.parts:
            passes = [number for _, number in part.passes]
            jobs[part.path].append({"passes": passes, "state": part.job.plain()})
        return {
            "v": VERSION,
            "pipeline": pipeline,
            "passes": dict(self.passes),
            "jobs": jobs,
            "operators": self.operators,
        }


def of(plain: Any, distributes: Sequence[str], repeats: Sequence[str]) -> IteratorState:
    """Read a state for a pipeline that has these *distributes* and *repeats*, by their paths.

    Raises:
        StateError: if the state is malformed or does not fit; the text says why.
    """
    match plain:
        case {"v": 1, "seed": _, "at": _}:
            raise StateError(
                "this is the state of a dataset without distribute(...); this dataset has one, "
                "and continues from a state of the job that its readers share"
            )
        case {"v": int(version)} if version not in _READ:
            raise StateError(
                f"this state of a job has version {glimpse(version)}; this Penstock reads the "
                f"versions {' and '.join(map(str, _READ))}"
            )
        case {"v": int(), "jobs": dict(), "passes": dict()}:
            jobs, numbers = plain["jobs"], plain["passes"]
        case _:
            raise _malformed(plain)
    if len(jobs) != len(distributes):
        raise StateError(
            f"the state was taken behind {len(jobs)} distribute(...), this dataset has "
            f"{len(distributes)}"
        )
    there, passes = _matched(jobs, distributes), _matched(numbers, repeats)
    try:
        now = {passes[path]: int(number) for path, number in numbers.items() if path in passes}
        parts = tuple(
            SavedPass(
                there[path],
                _pass_numbers(there[path], entry["passes"], repeats),
                SavedJob.of(entry["state"]),
            )
            for path, entries in jobs.items()
            for entry in entries
        )
    except PenstockError:
        raise
    except MALFORMED as exc:
        raise _malformed(plain) from exc
    return IteratorState(now, parts, plain.get("operators"), str(plain.get("pipeline")))


def enclosing(path: str, repeats: Iterable[str]) -> list[str]:
    """Return which of *repeats* are around the node at *path*, outermost first."""
    return sorted((r for r in repeats if path.startswith(f"{r}.")), key=len)


def _pass_numbers(path: str, numbers: Sequence[int], repeats: Sequence[str]) -> PassNumbers:
    around = enclosing(path, repeats)
    if len(numbers) > len(around):
        raise StateError(
            f"the state was taken with {len(numbers)} repeat(...) behind distribute(...), this "
            f"dataset has {len(around)}"
        )
    numbers = [*numbers, *[0] * (len(around) - len(numbers))]
    return tuple((repeat, int(number)) for repeat, number in zip(around, numbers, strict=True))


def _matched(saved: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
    """Map each path of the saved pipeline to the matching path of this pipeline."""
    return dict(zip(sorted(saved, key=_steps), sorted(paths, key=_steps), strict=False))


def _steps(path: str) -> list[str]:
    return [step.rjust(6) for step in path.split(".")]


def _malformed(state: Any) -> StateError:
    return StateError(f"not a state of an iterator over a job: {glimpse(state)}")
