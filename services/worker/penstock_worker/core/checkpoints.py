"""The positions from which an attempt can be replayed: engine states and later splits."""

from __future__ import annotations

from penstock.protocol.control import SplitGrant, TaskAssignment
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import Checkpoint

STATES, CHARS = 16, 1 << 23
"""The most checkpoints that are kept, and their most bytes unless there are but two."""


class AttemptCheckpoints:
    """The checkpoints of an attempt that may be needed, oldest first, and its split logs.

    A new runner continues from the newest one, whatever is acked by then. An older one is kept
    until everything before it is acked. Then the dispatcher has it, and another worker can continue
    from there.
    """

    def __init__(self, assignment: TaskAssignment) -> None:
        self._first = assignment.checkpoint
        self._states = [assignment.checkpoint]
        self._logs = list(assignment.logs)
        self._requested: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def newest(self) -> Checkpoint:
        """The checkpoint from which a new runner continues."""
        return self._states[-1]

    @property
    def logs(self) -> tuple[SplitLog, ...]:
        """The split logs, from the newest checkpoint on."""
        return tuple(self._logs)

    @property
    def requested(self) -> tuple[tuple[int, int], ...]:
        """The (provider, position) of all splits that were requested and did not come."""
        return tuple(self._requested.items())

    def add(self, state: Checkpoint) -> None:
        """Add a checkpoint. Those between the oldest and the newest are thinned out."""
        if state.number <= self.newest.number:
            return
        states = self._states
        states.append(state)
        span = state.number - states[0].number
        if len(states) > 2 and (states[-2].number - states[-3].number) * STATES < span:
            del states[-2]
        if len(states) > STATES or sum(len(one.state) for one in states) > CHARS:
            del states[1:-1:2]
        for provider, position in enumerate(state.positions):
            self._logs[provider] = self._logs[provider].forget(position)

    def latest_below(self, floor: int) -> Checkpoint | None:
        """Return the newest checkpoint at or below *floor*, if it is new; drop those before it."""
        while len(self._states) > 1 and self._states[1].number <= floor:
            del self._states[0]
        state = self._states[0]
        return None if state is self._first or state.number > floor else state

    def needs(self, provider: int, position: int) -> bool:
        """Note that the runner needs splits; return whether to request them from the dispatcher."""
        known = provider < len(self._logs) and position == self._logs[provider].stop
        if not known or self._requested.get(provider) == position:
            return False
        self._requested[provider] = position
        return True

    def on_splits(self, grant: SplitGrant) -> bool:
        """Add granted splits to their log; return whether they were new."""
        if not (0 <= grant.provider < len(self._logs)) or not grant.splits:
            return False
        log = self._logs[grant.provider]
        if grant.position != log.stop:
            return False
        self._logs[grant.provider] = log.plus(grant.splits)
        self._requested.pop(grant.provider, None)
        return True
