"""The saved state of a loader: its pass, its steps, and the state of its input there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.engine.iterator import State
from penstock.errors import StateError
from penstock.protocol.malformed import glimpse

VERSION = 1


@dataclass(frozen=True, slots=True)
class LoaderState:
    """The position of a loader: after *steps* elements of pass number *epoch*, counted from 0.

    Attributes:
        epoch: the number of the pass.
        steps: how many elements of it the loop got.
        finished: whether the pass is over; if so, the next pass follows.
        position: the state from which the dataset's iterator continues; None is the beginning.
    """

    epoch: int = 0
    steps: int = 0
    finished: bool = False
    position: State = None

    def plain(self) -> dict[str, Any]:
        """Return this state as plain JSON."""
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "steps": self.steps,
            "finished": self.finished,
            "input": self.position,
        }

    @classmethod
    def of(cls, state: Any) -> LoaderState:
        """Read what `plain` wrote.

        Raises:
            StateError: when *state* is something else.
        """
        match state:
            case {"version": int(version)} if version != VERSION:
                raise StateError(
                    f"this state of a loader has version {glimpse(version)}; this Penstock reads "
                    f"version {VERSION}"
                )
            case {
                "version": int(),
                "epoch": int(epoch),
                "steps": int(steps),
                "finished": bool(finished),
                "input": position,
            } if epoch >= 0 and steps >= 0:
                return cls(epoch, steps, finished, position)
        raise StateError(
            f"not a state of a loader: {glimpse(state)}; give load_state_dict what state_dict() "
            "returned"
        )
