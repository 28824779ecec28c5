"""Runners as who lends their frames sees them: memory that is written already, and what is lent."""

import os

import numpy as np

from penstock_worker.core.loans import Loans
from penstock_worker.runner.arena import SealedMemory

NBYTES, PLACE = 1 << 16, 1 << 13


class Runner:
    """A runner's memory, place for place filled with the place's number."""

    def __init__(self):
        self._memory = SealedMemory(NBYTES)
        self.arena = self._memory.memory
        whole = np.repeat(np.arange(NBYTES // PLACE, dtype=np.uint8), PLACE)
        os.pwrite(self._memory.writable, whole.tobytes(), 0)
        self.sent = []

    @property
    def arena_file(self):
        return self._memory.fd

    def die(self):
        self._memory.close()


class Runners:
    """What a door needs of `ActiveRunners`."""

    def __init__(self):
        self.loans, self.runner, self.free = Loans(2 * PLACE, NBYTES, PLACE), Runner(), []

    def runner_of(self, _frame):
        return self.runner if self.runner.arena_file >= 0 else None

    def lend(self, borrower, frame):
        return self.loans.lend(borrower, self.runner, frame.offset, frame.nbytes)

    def give_back(self, borrower, loans):
        self.free += self.loans.give_back(borrower, loans).get(self.runner, ())

    def hang_up(self, borrower):
        self.free += self.loans.hang_up(borrower).get(self.runner, ())

    def payload(self, frame):
        return self.runner.arena[frame.offset : frame.offset + frame.nbytes]
