"""The rules of saves, and how each is broken in the real code: then a law must break."""

from __future__ import annotations

from contextlib import ExitStack

import msgspec

from penstock.ops.follow import _FollowIterator
from penstock.ops.write_chunks import _WritingIterator
from penstock.saved import recording
from penstock.saved.manifest import SavedVersions
from penstock.saved.recording import Recording
from penstock.saved.taken import RowRun, TakenRows
from simulation.rules import Rules, put

RULES = Rules()


@RULES.add("A version is created only if there is none of its number.")
def version_is_created_once(stack: ExitStack) -> None:
    def commit(self, version):
        name = version.manifest.name
        self._folder.write(name, msgspec.json.encode(version.manifest))
        return True

    put(stack, SavedVersions, "commit", commit)
    put(stack, SavedVersions, "latest", _latest_that_is_known(SavedVersions.latest))


def _latest_that_is_known(real):
    def latest(self, known=None):
        return known or real(self)

    return latest


@RULES.add("A chunk keeps the name that workers gave it until its version is committed.")
def new_chunk_stays_until_committed(stack: ExitStack) -> None:
    made = Recording._chunk

    def makes_and_deletes(self, number, pieces, layout):
        found = made(self, number, pieces, layout)
        for piece in pieces:
            self._folder.delete(piece.name)
        return found

    put(stack, Recording, "_chunk", makes_and_deletes)


@RULES.add("A version has the rows that were taken of chunks that go on.")
def rows_that_go_on_are_committed(stack: ExitStack) -> None:
    put(stack, TakenRows, "going_on", lambda self: [])


@RULES.add("Rows that another attempt made again are left out.")
def only_taken_rows_count(stack: ExitStack) -> None:
    put(stack, RowRun, "is_whole", property(lambda run: bool(run.told)))


@RULES.add("The elements alone decide where a chunk ends, and neither time nor crashes.")
def elements_end_chunks(stack: ExitStack) -> None:
    def finished(self, pieces, *, is_over):
        return [[piece] for piece in pieces], [], []

    put(stack, Recording, "_finished", finished)


@RULES.add("A worker that goes on within a chunk knows how large it is.")
def bytes_of_a_chunk_go_on(stack: ExitStack) -> None:
    real = _WritingIterator.mark

    def mark(self):
        at = real(self)
        return lambda back: [at(back)[0], min(0, at(back)[1] or 0)]

    put(stack, _WritingIterator, "mark", mark)


@RULES.add("A complete save stays complete, even if a file that it does not need stays.")
def files_that_stay_fail_nothing(stack: ExitStack) -> None:
    def delete(self, names):
        for name in names:
            self._folder.delete(name)

    put(stack, Recording, "_delete", delete)


@RULES.add("A chunk that no listing names is asked for, because a listing may lag behind.")
def listings_are_not_believed(stack: ExitStack) -> None:
    def lost(folder, version):
        there = {f"data/{name}" for name in folder.names("data")}
        return [name for name in version.names if name not in there]

    put(stack, recording, "lost", lost)


@RULES.add("A reader that follows a save reads no other one.")
def one_save_is_followed(stack: ExitStack) -> None:
    def check_same(self, newest):
        self._save_id = newest.manifest.save_id if newest else ""

    put(stack, _FollowIterator, "_check_same", check_same)


@RULES.add("A worker's position is that of the receipts that it has given.")
def marks_are_of_receipts(stack: ExitStack) -> None:
    def mark(self):
        below, nbytes = self._upstream.mark(), self._nbytes
        return lambda back: [below(0), nbytes]

    put(stack, _WritingIterator, "mark", mark)
