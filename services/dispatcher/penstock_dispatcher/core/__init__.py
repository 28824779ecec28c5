"""The dispatcher's mind: signals in; facts, answers and orders out.

Rule 1. Nothing here awaits, reads a clock, draws a random number or logs.
Rule 2. A signal (a call, a beat, a tick) changes nothing that lasts: it is decided into facts.
Rule 3. Only `DispatcherState.apply` changes the books, and only facts go in. So recovery is replay.
Rule 4. Effects are in order: what depends on a fact comes behind the fact that is to be written.

Read `facts` first, then `mind`. `books` (of `records`) is what lasts, `heard` what comes back by
itself, and `desk` both. `jobs` opens iterations and `restoring` does so from a saved state, `tasks`
makes and starts tasks, `balance` moves them, `sources` cuts streams into splits, `saves` judges
saves, whose form is in `jobstate`. `shown` tells workers and readers where things stand, `waits`
what keeps them waiting; `account` and `stats` count.
"""

from penstock_dispatcher.core.context import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore

__all__ = ["CoreSettings", "DispatcherCore", "DispatcherState"]
