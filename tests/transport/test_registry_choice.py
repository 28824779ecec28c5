"""Which transport a reader takes to a worker."""

import pytest

from penstock.protocol.nearness import Distance, KnownWorker, WorkerProfile
from penstock.transport.registry import TransportKind, choose

KINDS = {
    name: TransportKind(name, farthest, None)
    for name, farthest in {
        "grpc": Distance.ELSEWHERE,
        "shared": Distance.SAME_HOST,
        "local": Distance.SAME_PROCESS,
    }.items()
}
ALL = ("grpc", "shared", "local")


def chosen(wanted, offered, away):
    choice = choose(wanted, KnownWorker("w:1", 1, WorkerProfile("h", offered)), away, KINDS)
    return [kind.name for kind in choice.kinds], choice.refused


@pytest.mark.parametrize(
    ("offered", "away", "names"),
    [
        (ALL, Distance.SAME_PROCESS, ["local", "shared", "grpc"]),
        (ALL, Distance.SAME_HOST, ["shared", "grpc"]),
        (ALL, Distance.ELSEWHERE, ["grpc"]),
        (("grpc", "shared"), Distance.SAME_PROCESS, ["shared", "grpc"]),
        (("grpc", "of tomorrow"), Distance.SAME_PROCESS, ["grpc"]),
        ((), Distance.SAME_PROCESS, ["grpc"]),
    ],
)
def test_by_itself_it_takes_the_nearest_that_is_offered_and_leads_there(offered, away, names):
    assert chosen(None, offered, away) == (names, "")


def test_what_is_wanted_comes_before_what_leads_everywhere():
    assert chosen("shared", ALL, Distance.SAME_PROCESS) == (["shared", "grpc"], "")
    assert chosen("grpc", ALL, Distance.SAME_PROCESS) == (["grpc"], "")


def test_what_is_wanted_and_not_offered_is_refused_by_naming_what_is():
    names, why = chosen("shared", ("grpc", "local"), Distance.SAME_HOST)

    assert names == ["grpc"]
    assert why == "it offers grpc, local"
