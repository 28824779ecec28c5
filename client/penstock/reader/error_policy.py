"""How `distribute` treats elements that workers cannot make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import DatasetError
from penstock.options import check_count
from penstock.protocol.calls import OnError, OpenIterationRequest


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy that all readers of a job share: skip at most *most* elements of a pass."""

    on_error: OnError = OnError.RAISE
    most: int | None = None

    @property
    def skips(self) -> bool:
        """Whether elements may be left out."""
        return self.on_error is OnError.SKIP

    def requested(self, request: OpenIterationRequest) -> OpenIterationRequest:
        """Return *request* with what all readers must agree on."""
        return replace(request, on_error=self.on_error.value, max_errors=self.most)


def error_policy_of(
    on_error: Any, max_errors: Any, *, coordinated: bool, static: bool = False
) -> ErrorPolicy:
    """Return what the arguments of `distribute` ask for.

    Raises:
        DatasetError: naming the argument, its value and what to do.
    """
    known = [policy.value for policy in OnError]
    if not isinstance(on_error, str) or on_error not in known:
        raise DatasetError(f"on_error must be {known[0]!r} or {known[1]!r}, not {on_error!r}")
    skips = on_error == OnError.SKIP.value
    if max_errors is not None and not skips:
        raise DatasetError(
            f"max_errors={max_errors!r} is for on_error='skip': with {on_error!r} the first error "
            "is raised"
        )
    if skips and coordinated:
        raise DatasetError(
            "distribute: on_error='skip' and num_consumers exclude each other: what is left out "
            "would move all elements behind it to other rounds. Put ignore_errors() before what "
            "makes groups of num_consumers elements"
        )
    if skips and static:
        raise DatasetError(
            "distribute: on_error='skip' and static sharding exclude each other: each task makes "
            "all elements up to where parts are cut, so one that fails in one task only would move "
            "the parts against each other. Put ignore_errors() behind what may fail, or use DYNAMIC"
        )
    if max_errors is not None:
        max_errors = check_count("distribute", "max_errors", max_errors, least=0)
    return ErrorPolicy(OnError(on_error), max_errors)
