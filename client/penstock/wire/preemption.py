"""The method by which trainers agree where to stop."""

from __future__ import annotations

from collections.abc import Callable

import grpc

from penstock.protocol.preemption import PreemptionReport, PreemptionVerdict
from penstock.wire._pb import preemption_pb2
from penstock.wire.codec import form
from penstock.wire.rpc import UnaryRpc

LARGEST = 1 << 14
"""Bytes of a report."""

REPORT: UnaryRpc[PreemptionReport, PreemptionVerdict] = UnaryRpc(
    "/penstock.v1.Preemption/Report",
    form(PreemptionReport, preemption_pb2.PreemptionReport, LARGEST),
    form(PreemptionVerdict, preemption_pb2.PreemptionVerdict),
)


def preemption_handlers(
    decide: Callable[[PreemptionReport], PreemptionVerdict],
) -> grpc.GenericRpcHandler:
    """Answer reports with what *decide* returns."""

    async def report(said: PreemptionReport) -> PreemptionVerdict:
        return decide(said)

    return grpc.method_handlers_generic_handler(
        "penstock.v1.Preemption", {"Report": REPORT.handler(report)}
    )
