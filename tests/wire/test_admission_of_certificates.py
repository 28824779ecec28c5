"""Who calls by TLS has a certificate and a token, of one role: neither is enough alone."""

import shutil
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from penstock.credentials import authority
from penstock.credentials.access import TABLE, AccessRole
from penstock.credentials.caller import LocalCaller, caller_with
from penstock.credentials.entrance import entrance_of
from penstock.credentials.folder import load_client
from penstock.errors import (
    PenstockError,
    Unauthenticated,
    Unavailable,
    UnknownDataset,
    Untrusted,
)
from penstock.wire import tensorflow
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers, preemption_handlers
from penstock.wire.recordings import recordings_handlers
from penstock.wire.worker import worker_handlers
from tests.credentials.keyring import made


class Anything:
    """Answers every method with an error that only one who was let in can see."""

    def __getattr__(self, _name):
        return self.answer

    async def answer(self, *_):
        raise UnknownDataset("let in")


class AnyStreams(Anything):
    async def read(self, _requests):
        raise UnknownDataset("let in")
        yield

    worker_control = reader_control = read


async def said(channel, path, token):
    """Return the status code of a call of *path*, of whichever kind."""
    metadata = (("penstock-token", token),) if token else ()
    try:
        if path.endswith(("Control", "/Read")):
            call = channel.inner.stream_stream(path)(metadata=metadata)
            await call.done_writing()
            await call.read()
            return await call.code()
        await channel.inner.unary_unary(path)(b"", metadata=metadata, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


ROWS = [path for path in TABLE if path.startswith("/") and not path.endswith("Health/Watch")]
"""All methods but one that never ends."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@asynccontextmanager
async def served(keys):
    """Answer all methods there are, with the dispatcher's credentials; yield the address."""
    handlers = [
        dispatcher_handlers(AnyStreams()),
        worker_handlers(AnyStreams()),
        preemption_handlers(refuse),
        recordings_handlers(Anything()),
        *tensorflow.dispatcher_handlers(Anything()),
        tensorflow.worker_handlers(Anything().answer),
    ]
    entrance = entrance_of("127.0.0.1", str(keys / "dispatcher"), insecure=False)
    async with listening(*handlers, host="127.0.0.1", port=0, drain=0, entrance=entrance) as port:
        yield f"127.0.0.1:{port}"


def refuse(_said):
    raise UnknownDataset("let in")


@pytest.mark.parametrize("role", [*AccessRole])
async def test_each_method_of_a_real_server_is_for_its_roles_and_for_nobody_without_a_token(
    keys, role
):
    tokens = {one: load_client(keys / one.value).token for one in AccessRole} | {None: ""}
    denied, unknown = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED
    who = caller_with(str(keys / role.value))
    async with served(keys) as address, connect(address, caller=who) as channel:
        for path in ROWS:
            access = TABLE[path]
            for other, token in tokens.items():
                code = await said(channel, path, token)
                if access.anybody or other is role in access.roles:
                    assert code not in {denied, unknown}, (path, other)
                elif other is None or other in access.roles:
                    assert code is unknown, (path, other)  # the other one was stolen
                else:
                    assert code is denied, (path, other)


async def answer(address, who):
    async with connect(address, caller=who) as channel:
        with suppress(UnknownDataset):
            return await DispatcherClient(channel).status()


def stolen(keys, tmp_path, **files):
    """Return a reader's folder with files of others in it."""
    shutil.copytree(keys / "reader", tmp_path / "mixed")
    for name, whose in files.items():
        shutil.copy(whose / name.replace("_", "."), tmp_path / "mixed")
    return caller_with(str(tmp_path / "mixed"))


async def test_a_service_that_is_called_by_a_name_it_has_not_is_not_trusted(keys):
    who = caller_with(str(keys / "reader"))
    async with served(keys) as address, connect(address, caller=who, server="other") as channel:
        with pytest.raises(Untrusted, match=f"{address} shows a certificate for another name"):
            await DispatcherClient(channel).status()


async def test_a_token_of_another_role_than_the_certificate_says_both(keys, tmp_path):
    who = stolen(keys, tmp_path, token=keys / "operator")
    async with served(keys) as address:
        with pytest.raises(Unauthenticated, match="operator 'operator'.*is of reader"):
            await answer(address, who)


async def test_without_a_certificate_nobody_comes_in_whatever_token_there_is(keys):
    found = load_client(keys / "operator")
    trusting = grpc.ssl_channel_credentials(found.tls.ca)
    async with served(keys) as address, grpc.aio.secure_channel(address, trusting) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary("/penstock.v1.Dispatcher/Status")(
                b"", metadata=(("penstock-token", found.token),), timeout=20
            )
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(Unavailable, match=r"credentials \(grpcs://\)"):
            await answer(address, LocalCaller())


async def test_a_certificate_of_another_cluster_is_told_from_the_folder_s_own_cas(keys, tmp_path):
    other = made(tmp_path / "other") / "reader"
    who = stolen(keys, tmp_path, tls_crt=other, tls_key=other)
    async with served(keys) as address:
        with pytest.raises(Unauthenticated, match="none of the CAs in its ca.crt"):
            await answer(address, who)
        with pytest.raises(Untrusted, match="CA that is not trusted"):
            await answer(address, caller_with(str(other)))


async def test_a_key_of_another_certificate_is_found(keys, tmp_path):
    who = stolen(keys, tmp_path, tls_key=keys / "trainer")
    async with served(keys) as address:
        with pytest.raises(PenstockError):
            await answer(address, who)
    assert "not the key of tls.crt" in who.trouble()


@pytest.mark.parametrize(
    "days, words", [(-800, "expired .* the clock of this host says"), (90, "clock, or the one")]
)
async def test_a_certificate_out_of_its_time_says_when_it_is_good_and_what_time_it_is(
    keys, tmp_path, days, words
):
    shutil.copytree(keys, tmp_path / "keys")
    now = datetime.now(UTC) + timedelta(days=days)
    authority.personal(tmp_path / "keys", tmp_path / "ann", AccessRole.READER, "ann", now, 60.0)
    async with served(keys) as address:
        with pytest.raises(Unauthenticated, match=words):
            await answer(address, caller_with(str(tmp_path / "ann")))


async def test_certificates_of_two_cas_are_good_at_once_while_these_are_changed(tmp_path):
    keys, now = made(tmp_path / "keys"), datetime.now(UTC)
    authority.rotate(keys, now)
    shutil.copytree(keys / "reader", tmp_path / "old")
    authority.rotate(keys, now)
    async with served(keys) as address:
        for folder in (keys / "reader", tmp_path / "old"):
            await answer(address, caller_with(str(folder)))


async def test_a_personal_folder_is_let_in_as_its_role(keys, tmp_path):
    now = datetime.now(UTC)
    authority.personal(keys, tmp_path / "ann", AccessRole.OPERATOR, "ann", now, 3600.0)
    async with served(keys) as address:
        await answer(address, caller_with(str(tmp_path / "ann")))
