"""Datasets and the ids that they are read by: registering, finding, and forgetting them."""

from __future__ import annotations

from penstock.errors import DatasetError, PenstockError, UnknownDataset
from penstock.protocol.calls import OpenIterationRequest, RegisteredDataset, Registration
from penstock.protocol.types import Failure
from penstock_dispatcher.core import admission
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.datasets import (
    DatasetForgotten,
    DatasetRegistered,
    IdRegistered,
    RegistrationRecord,
)
from penstock_dispatcher.core.events import FindDataset, RegisterDataset, ReplyToCall
from penstock_dispatcher.core.jobs import check_protocol
from penstock_dispatcher.core.state import DispatcherState


def on_register(ctx: DecisionContext, event: RegisterDataset) -> None:
    """Register a pipeline, and the id that it can be read by if there is to be one."""
    try:
        check_protocol("the client", event.versions)
        named = None if event.registration is None else _named(ctx.state, event, event.registration)
        if event.dataset not in ctx.state.datasets:
            admission.check_dataset(ctx.state, ctx.settings.max_datasets)
    except PenstockError as exc:
        ctx.effects.append(ReplyToCall(event.call, Failure.of(exc)))
        return
    known, python = ctx.state.datasets.get(event.dataset), event.python
    if known is None or (python and python not in known.pythons):
        about = (event.providers, event.unsplittable, event.nondeterministic, event.outline)
        ctx.commit(DatasetRegistered(event.dataset, *about, python, event.unordered))
        ctx.mark_all_dirty()
    if named is not None:
        ctx.commit(named)
    ctx.soft_state.unused_since.pop(event.dataset, None)
    ctx.effects.append(ReplyToCall(event.call, event.dataset))


def _named(
    state: DispatcherState, event: RegisterDataset, asked: Registration
) -> IdRegistered | None:
    """Return what there is to note of an id; None if all is known.

    Raises:
        DatasetError: when the id stands for something else.
    """
    dataset_id = asked.dataset_id or event.dataset
    known = state.registrations.get(dataset_id)
    if known is not None:
        _check_same(state, dataset_id, known, event, asked)
    spec, explicit = asked.element_spec, bool(asked.dataset_id)
    if known is not None:  # what is known stays
        spec, explicit = known.element_spec or spec, known.explicit or explicit
    named = IdRegistered(dataset_id, event.dataset, asked.codec, spec, explicit)
    if known == RegistrationRecord(event.dataset, asked.codec, spec, explicit):
        return None
    return named


def _check_same(
    state: DispatcherState,
    dataset_id: str,
    known: RegistrationRecord,
    event: RegisterDataset,
    asked: Registration,
) -> None:
    if known.dataset != event.dataset:
        raise DatasetError(
            f"dataset_id {dataset_id!r} stands for the pipeline with the fingerprint "
            f"{known.dataset} ({state.datasets[known.dataset].outline}), not for {event.dataset} "
            f"({event.outline}), forever: register this one with another dataset_id"
        )
    if known.codec is not asked.codec:
        raise DatasetError(
            f"dataset_id {dataset_id!r} is registered with the compression {known.codec.value!r}, "
            f"not {asked.codec.value!r}: register it with that, or with a dataset_id of its own"
        )


def on_find(ctx: DecisionContext, event: FindDataset) -> None:
    """Reply with the dataset that is registered under an id; this use keeps it for a while."""
    known = ctx.state.registrations.get(event.dataset_id)
    if known is None:
        ctx.effects.append(ReplyToCall(event.call, Failure.of(_unknown(ctx, event.dataset_id))))
        return
    ctx.soft_state.unused_since.pop(known.dataset, None)
    found = RegisteredDataset(event.dataset_id, known.dataset, known.codec, known.element_spec)
    ctx.effects.append(ReplyToCall(event.call, found))


def check_id(ctx: DecisionContext, request: OpenIterationRequest) -> None:
    """Refuse to read by an id that does not stand for the dataset of *request*.

    Raises:
        PenstockError: saying what it stands for.
    """
    asked = request.parameters
    known = ctx.state.registrations.get(asked.dataset_id)
    if known is None:
        raise _unknown(ctx, asked.dataset_id)
    if known.dataset != asked.dataset:
        raise DatasetError(
            f"dataset_id {asked.dataset_id!r} stood for the pipeline with the fingerprint "
            f"{asked.dataset} when from_dataset_id was called, and stands for {known.dataset} "
            "now: the dispatcher was restarted without its journal. Call from_dataset_id again"
        )


def _unknown(ctx: DecisionContext, dataset_id: str) -> UnknownDataset:
    return UnknownDataset(
        f"nothing is registered under the dataset_id {dataset_id!r} at {ctx.address}: call "
        "penstock.service.register_dataset first. A dispatcher without a work_dir forgets ids when "
        "it restarts, and one that nobody chose is forgotten when nothing has used it for "
        "dataset_gc_timeout; to keep one, choose it: register_dataset(..., dataset_id='...')"
    )


def sweep(ctx: DecisionContext, now: float) -> None:
    """Forget pipelines that nothing has used for long, and that no chosen id stands for."""
    state, since = ctx.state, ctx.soft_state.unused_since
    kept = {one.dataset for one in state.registrations.values() if one.explicit}
    kept.update(one.parameters.dataset for one in state.iterations.values())
    kept.update(one.dataset for one in state.recordings.values() if one.open)
    for dataset in kept:
        since.pop(dataset, None)
    overdue = [
        dataset
        for dataset in state.datasets
        if dataset not in kept and _overdue(ctx, since.setdefault(dataset, now), now)
    ]
    named = {job.parameters.dataset for job in state.jobs.values()} if overdue else set()
    for dataset in overdue:
        if dataset in named:  # by a job that may be read again
            since[dataset] = now
        else:
            del since[dataset]
            ctx.commit(DatasetForgotten(dataset))


def _overdue(ctx: DecisionContext, since: float, now: float) -> bool:
    return ctx.soft_state.silence(since, now) > ctx.settings.dataset_idle
