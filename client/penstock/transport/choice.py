"""Chooses the transports by which to reach a worker, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.protocol.nearness import GRPC, Distance, KnownWorker
from penstock.transport.registry import TransportKind


@dataclass(frozen=True, slots=True)
class TransportChoice:
    """The *kinds* to try in turn; *refused* says why the wanted transport is not among them."""

    kinds: tuple[TransportKind, ...]
    refused: str = ""


def choose(
    wanted: str | None, worker: KnownWorker, distance: Distance, kinds: Mapping[str, TransportKind]
) -> TransportChoice:
    """Return the transports to try for *worker*: *wanted* or the nearest ones, then gRPC.

    gRPC is last because it reaches every worker.
    """
    offered, everywhere = worker.profile.offered, kinds[GRPC]
    if wanted is None:
        near = [
            kinds[name]
            for name in offered
            if name in kinds and name != GRPC and distance <= kinds[name].farthest
        ]
        return TransportChoice((*sorted(near, key=lambda kind: kind.farthest), everywhere))
    if wanted == GRPC:
        return TransportChoice((everywhere,))
    if wanted not in offered:
        return TransportChoice((everywhere,), f"it offers {', '.join(offered)}")
    return TransportChoice((kinds[wanted], everywhere))
