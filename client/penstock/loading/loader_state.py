"""What is saved of a loader: which pass it is in, how far, and the state of its input there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.engine.iterator import State
from penstock.errors import StateError
from penstock.protocol.malformed import glimpse

VERSION = 1


@dataclass(frozen=True, slots=True)
class LoaderState:
    """Where a loader stands: behind *steps* elements of pass number *epoch*, counted from 0.

    Attributes:
        epoch: the number of the pass.
        steps: how many elements of it the loop got.
        finished: whether the pass is over: the next one is the pass behind it.
        position: what the dataset's iterator goes on from; None is the beginning.
    """

    epoch: int = 0
    steps: int = 0
    finished: bool = False
    position: State = None

    def plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
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
