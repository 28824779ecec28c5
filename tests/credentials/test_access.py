"""Who may call what, row by row; methods that are served, and are not in the table."""

import itertools

import pytest

from penstock.credentials.access import TABLE, AccessRole, Identity, check, needs_nothing
from penstock.errors import WrongRole
from penstock.wire import tensorflow
from penstock.wire.dispatcher import dispatcher_handlers, preemption_handlers
from penstock.wire.recordings import recordings_handlers
from penstock.wire.worker import worker_handlers

R, T, W, OP = AccessRole.READER, AccessRole.TRAINER, AccessRole.WORKER, AccessRole.OPERATOR

MAY = {
    "/penstock.v1.Dispatcher/RegisterDataset": {T},
    "/penstock.v1.Dispatcher/FindDataset": {R, T, W},
    "/penstock.v1.Dispatcher/GetDefinition": {T, W},
    "/penstock.v1.Dispatcher/OpenIteration": {R, T, W},
    "/penstock.v1.Dispatcher/Drain": {OP},
    "/penstock.v1.Dispatcher/DrainHost": {T, OP},
    "/penstock.v1.Dispatcher/SetWeights": {T, OP},
    "/penstock.v1.Dispatcher/Status": {R, T, W, OP},
    "/penstock.v1.Dispatcher/WorkerControl": {W},
    "/penstock.v1.Dispatcher/ReaderControl": {R, T, W},
    "/penstock.v1.Worker/Read": {R, T, W},
    "/penstock.v1.Worker/Status": {R, T, W, OP},
    "/penstock.v1.Worker/Trace": {R, T, OP},
    "/penstock.v1.Preemption/Report": {R, T},
    "/penstock.v1.Recordings/Start": {T},
    "/penstock.v1.Recordings/Find": {R, T, OP},
    "/penstock.v1.Recordings/Cancel": {T, OP},
    "/penstock.v1.TensorFlow/FindTask": {W},
    "GET /metrics": {R, T, W, OP},
    "GET /": {R, T, W, OP},
    "GET /assets/{name}": {R, T, W, OP},
    "GET /api/status": {R, T, W, OP},
    "GET /api/page": {R, T, W, OP},
    "GET /events": {R, T, W, OP},
}
"""What is for roles alone, written down a second time."""

TENSORFLOW = {path for path in TABLE if path.startswith("/tensorflow.data.")}
HEALTH = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}
HEALTH |= {"GET /healthz", "GET /readyz"}
HTTP = {path for path in TABLE if path.startswith("GET ")}
LOOPBACK = TENSORFLOW | (HTTP - HEALTH)


class Anything:
    def __getattr__(self, _name):
        return lambda *_: None


def served():
    """Return the paths of all methods that services answer."""
    handlers = [
        dispatcher_handlers(Anything()),
        worker_handlers(Anything()),
        preemption_handlers(lambda said: said),
        recordings_handlers(Anything()),
        *tensorflow.dispatcher_handlers(Anything()),
        tensorflow.worker_handlers(lambda request: request),
    ]
    return {path for handler in handlers for path in handler._method_handlers}


def test_the_table_has_every_method_that_is_served_and_no_other():
    assert served() | HEALTH | HTTP == TABLE.keys() == MAY.keys() | TENSORFLOW | HEALTH


@pytest.mark.parametrize("path, role", [*itertools.product(MAY, AccessRole)])
def test_each_method_is_for_its_roles_alone(path, role):
    identity = Identity("ann", frozenset({role}))

    if role in MAY[path]:
        check(path, identity)
    else:
        with pytest.raises(WrongRole, match="credentials of a") as raised:
            check(path, identity)
        assert role.value in str(raised.value)


@pytest.mark.parametrize("path", sorted(MAY.keys() - LOOPBACK))
def test_no_method_for_roles_is_answered_without_a_credential(path):
    assert not needs_nothing(path, loopback=True)
    assert not needs_nothing(path, loopback=False)


@pytest.mark.parametrize("path", sorted(LOOPBACK))
def test_tensorflows_own_clients_and_browsers_need_none_on_loopback_alone(path):
    assert needs_nothing(path, loopback=True)
    assert not needs_nothing(path, loopback=False)


@pytest.mark.parametrize("path", sorted(HEALTH))
def test_health_is_for_anybody(path):
    assert needs_nothing(path, loopback=False)


def test_a_method_that_is_not_in_the_table_is_for_nobody():
    everybody = Identity("ann", frozenset(AccessRole))

    assert not needs_nothing("/penstock.v1.Worker/New", loopback=True)
    with pytest.raises(WrongRole, match="for nobody"):
        check("/penstock.v1.Worker/New", everybody)
