"""Registers a dataset under an id, and looks up the dataset of an id."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.analysis.array_spec import Spec, Specs, spec_from_bytes, spec_to_bytes
from penstock.analysis.element_spec import specs_of
from penstock.analysis.registered import Registered
from penstock.definition import encode, largest_part
from penstock.errors import DatasetError, DefinitionTooLarge, PenstockError, describe
from penstock.graph.node import Node
from penstock.graph.traversal import DatasetBase, options_of
from penstock.options import ExternalStatePolicy, check_seconds
from penstock.protocol.calls import Registration
from penstock.protocol.definition import Definition
from penstock.protocol.names import fault_of_id
from penstock.protocol.types import Codec
from penstock.reader import arguments
from penstock.reader.external_state import refuse_weak
from penstock.serialization.fingerprint import explain_difference

if TYPE_CHECKING:
    from penstock.wire.dispatcher import DispatcherClient

log = logging.getLogger("penstock.service")

T = TypeVar("T")

AUTO = "AUTO"


def register_dataset(  # the reference's parameters, and two more
    service: str | tuple[str, str],
    dataset: DatasetBase,
    compression: str | None = "AUTO",
    dataset_id: str | None = None,
    *,
    element_spec: Spec | None = AUTO,
    timeout: float = 60.0,
    credentials: str | os.PathLike[str] | None = None,
) -> str:
    """Register a dataset, and return its id for `from_dataset_id`.

    A training process can then read a pipeline without its code. The dispatcher keeps the
    definition and runs nothing of it; it keeps equal definitions once.

    Args:
        service: the dispatcher, as ``"grpc[s]://host:port"``, ``"host:port"`` or
            ``("grpc", "host:port")``.
        dataset: the pipeline for the workers.
        compression: for all readers: ``"AUTO"``, ``"LZ4"``, ``"ZSTD"`` or None. With
            ``"SNAPPY"``, TensorFlow's own clients get compressed elements, and other readers the
            same as with AUTO; workers need ``penstock[snappy]``.
        dataset_id: an id of your choice, which stands for this dataset forever. By default it is
            the dataset's fingerprint: equal datasets have one id, and the dispatcher deletes it
            when nothing has used it for `DispatcherConfig.dataset_gc_timeout`.
        element_spec: the spec of the elements, as `Dataset.element_spec` returns it. By default one
            element is made in this process to find it. If that fails, the log says why, and readers
            have no `element_spec`, but can read. None makes no element.
        timeout: for how many seconds the dispatcher may be absent.
        credentials: the folder of a trainer's credentials, if the dispatcher asks for them;
            see `distribute`.

    Raises:
        DatasetError: when an argument is malformed, or the id stands for another dataset already.
        DefinitionError: when the pipeline cannot be sent to a worker; as `DefinitionTooLarge` if it
            takes more bytes than the dispatcher accepts.
        VersionMismatch: when all workers run another minor version of Python, and the pipeline has
            functions.
        WaitedTooLong: when no dispatcher answers.

    >>> from penstock_cluster import LocalCluster
    >>> from penstock.service import from_dataset_id, register_dataset
    >>> with LocalCluster(workers=1) as cluster:
    ...     squares = Dataset.range(4).map(lambda x: x * x)
    ...     name = register_dataset(cluster.target, squares, dataset_id="squares")
    ...     dataset = from_dataset_id("distributed_epoch", cluster.target, name)
    ...     name, list(dataset.batch(4))
    ('squares', [array([0, 1, 4, 9])])
    """
    address = arguments.service_of(service, credentials)
    seconds = check_seconds("register_dataset", "timeout", timeout)
    codec = arguments.registered_codec_of(compression)
    chosen = "" if dataset_id is None else checked_id(dataset_id)
    if not isinstance(dataset, DatasetBase):
        raise DatasetError(f"register_dataset takes a Dataset, not {dataset!r:.80}")
    node = dataset.node
    if options_of(node).external_state_policy == ExternalStatePolicy.FAIL:
        refuse_weak(node)
    definition = encode(node)
    asked = Registration(chosen, codec, _spec_bytes(node, element_spec))
    try:
        _register(address, seconds, definition, asked)
    except DefinitionTooLarge as exc:
        raise DefinitionTooLarge(f"{largest_part(node)}: {exc}") from None
    except DatasetError as exc:
        raise _explained(exc, address, seconds, chosen, definition) from None
    return chosen or definition.fingerprint


def find(
    address: str, dataset_id: Any, given: Spec | None, seconds: float
) -> tuple[Registered, Codec]:
    """Return the dataset registered under *dataset_id*, and its compression.

    The spec of its elements may be *given*.

    Raises:
        DatasetError: when that is no id, or elements look otherwise.
        UnknownDataset: when nothing is.
    """
    name = checked_id(dataset_id)
    if given is not None:
        spec_to_bytes(given)
    found = call(address, seconds, lambda dispatcher: dispatcher.find_dataset(name))
    specs = None if given is None else Specs(given, given)
    if found.element_spec:
        specs = Specs(*spec_from_bytes(found.element_spec))
    if given is not None and specs is not None and given != specs.whole:
        raise DatasetError(
            f"element_spec is given as {given}, but dataset_id {name!r} is registered with "
            f"{specs.whole}: leave it out, or give that"
        )
    return Registered(name, Definition.from_bytes(found.definition), specs), found.codec


def checked_id(given: Any) -> str:
    """Return *given*, an id of a dataset.

    Raises:
        DatasetError: when it is none.
    """
    if fault := fault_of_id(given):
        raise DatasetError(f"dataset_id {fault}")
    return str(given)


def _spec_bytes(node: Node, given: Spec | None) -> bytes:
    """Return the spec that is *given*, or found out; nothing if it is not known."""
    if given is None:
        return b""
    if not isinstance(given, str) or given != AUTO:
        return spec_to_bytes(Specs(given, given))
    try:
        specs = specs_of(node)
    except Exception as exc:  # noqa: BLE001  users' functions raise anything, and may need workers
        log.warning(
            "the element_spec of the registered dataset is not known, for no element could be "
            "made here: %s. Give register_dataset(..., element_spec=...), or None to say nothing",
            describe(exc),
        )
        return b""
    return spec_to_bytes(specs)


def _register(address: str, seconds: float, definition: Definition, asked: Registration) -> None:
    from penstock.runtime.versions import versions  # noqa: PLC0415  # it loads gRPC

    data, mine = definition.to_bytes(), versions()
    call(address, seconds, lambda dispatcher: dispatcher.register_dataset(data, mine, asked))


def _explained(
    error: DatasetError, address: str, seconds: float, dataset_id: str, mine: Definition
) -> DatasetError:
    """Return *error* with the first difference between *mine* and what has the id, if any."""
    if not dataset_id or type(error) is not DatasetError:
        return error
    try:
        found = call(address, seconds, lambda dispatcher: dispatcher.find_dataset(dataset_id))
        difference = explain_difference(Definition.from_bytes(found.definition), mine)
    except PenstockError:
        return error
    return DatasetError(f"{error}. Of the two, {difference}") if difference else error


def call(address: str, seconds: float, make: Callable[[DispatcherClient], Awaitable[T]]) -> T:
    """Return what the dispatcher at *address* answers to the call that *make* makes.

    Raises:
        WaitedTooLong: when no dispatcher answers for so many *seconds*.
    """
    # They load gRPC.
    from penstock.reader.session.line import call_dispatcher  # noqa: PLC0415
    from penstock.runtime.event_loop import LoopThread  # noqa: PLC0415

    with LoopThread.shared() as loop:
        return loop.run(call_dispatcher(address, seconds, make))
