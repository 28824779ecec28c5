"""Guards: who is let in where, by how a service listens."""

from datetime import UTC, datetime

import pytest

from penstock.credentials import authority
from penstock.credentials.access import TABLE, AccessRole, check
from penstock.credentials.folder import LOOK, WatchedFolder, load_client, load_service
from penstock.credentials.guard import (
    ANYBODY,
    KEPT,
    LocalGuard,
    OpenGuard,
    TensorFlowGuard,
    TokenGuard,
)
from penstock.credentials.local import LocalKey
from penstock.errors import Unauthenticated, WrongRole
from tests.credentials.keyring import made

STATUS, DRAIN = "/penstock.v1.Dispatcher/Status", "/penstock.v1.Dispatcher/Drain"
HEALTH, TF = "/grpc.health.v1.Health/Check", "/tensorflow.data.WorkerService/GetElement"


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def keys(tmp_path):
    return made(tmp_path / "keys")


@pytest.fixture
def clock():
    return Clock(datetime.now(UTC).timestamp())


@pytest.fixture
def guard(keys, clock):
    return TokenGuard(WatchedFolder(keys / "dispatcher", load_service, clock), clock)


def shown(keys, role):
    return load_client(keys / role).token


def test_an_open_one_lets_everybody_do_everything():
    OpenGuard().admit(DRAIN, "")


@pytest.mark.parametrize("shows", ["", "penstock1.a.b"])
def test_a_path_is_shown_in_part_and_printable_however_long_somebody_made_it(guard, shows):
    for one in (guard, TensorFlowGuard()):
        with pytest.raises(Unauthenticated) as refused:
            one.admit("/\x1b[2J" + "x" * 100_000, shows)
        assert len(str(refused.value)) < 1000
        assert "\x1b" not in str(refused.value)
    with pytest.raises(WrongRole, match=r"x{100}\.\.\. is for nobody"):
        check("/" + "x" * 1000, ANYBODY)


@pytest.mark.parametrize("path", sorted(TABLE))
def test_a_port_of_tensorflows_protocol_answers_that_and_health_and_nothing_else(path):
    if TABLE[path].anybody:
        assert TensorFlowGuard().admit(path, "") is None
    elif path.startswith("/tensorflow.data."):
        assert TensorFlowGuard().admit(path, "").roles == set()
    else:
        with pytest.raises(Unauthenticated, match="TensorFlow's clients alone"):
            TensorFlowGuard().admit(path, "penstock1.a.b")


def test_a_token_of_one_role_is_of_no_use_with_a_certificate_of_another(keys, guard):
    ann = guard.admit(DRAIN, shown(keys, "operator"))

    guard.confirm(ann, ["operator.penstock.internal", "localhost"])
    for names in ([], ["reader.penstock.internal"], ["operator.example"]):
        with pytest.raises(Unauthenticated, match="of one role"):
            guard.confirm(ann, names)


def test_a_token_lets_in_whom_the_table_names(keys, guard):
    guard.admit(DRAIN, shown(keys, "operator"))
    with pytest.raises(WrongRole, match="for the role operator"):
        guard.admit(DRAIN, shown(keys, "trainer"))


def test_without_a_token_only_health_is_answered(guard):
    guard.admit(HEALTH, "")
    for path in (STATUS, TF):
        with pytest.raises(Unauthenticated, match="PENSTOCK_CREDENTIALS"):
            guard.admit(path, "")


def test_a_token_that_was_let_in_before_is_refused_once_it_has_expired(keys, guard, clock):
    short = authority.token(keys, AccessRole.OPERATOR, "ann", clock(), 600.0)
    guard.admit(DRAIN, short)
    clock.now += 700

    with pytest.raises(Unauthenticated, match="expired"):
        guard.admit(DRAIN, short)


def test_a_key_that_is_taken_out_of_use_is_forgotten_with_its_tokens(keys, guard, clock):
    old = shown(keys, "operator")
    guard.admit(DRAIN, old)
    for _ in range(3):
        authority.rotate(keys, datetime.now(UTC))
    clock.now += LOOK

    with pytest.raises(Unauthenticated, match="taken out of use"):
        guard.admit(DRAIN, old)
    guard.admit(DRAIN, shown(keys, "operator"))


@pytest.mark.slow
def test_tokens_that_are_remembered_are_bounded(keys, guard, clock):
    for number in range(KEPT + 5):
        guard.admit(STATUS, authority.token(keys, AccessRole.READER, f"n{number}", clock(), 60.0))

    assert len(guard._known) == KEPT


def test_on_loopback_this_users_processes_are_let_in_and_others_are_told_why(tmp_path, clock):
    key = LocalKey(tmp_path)
    guard = LocalGuard(key, lambda: 7000, clock)

    guard.admit(DRAIN, key.proof(7000, clock()))
    guard.admit(HEALTH, "")
    guard.admit(TF, "")
    for other in ("", "penstock1.a.b", key.proof(7001, clock())):
        with pytest.raises(Unauthenticated, match="for processes of user"):
            guard.admit(STATUS, other)
