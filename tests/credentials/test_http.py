"""Requests of HTTP: how a token is shown, what is said of one that is not, and TLS."""

import base64
import socket
import ssl
import threading
from datetime import UTC, datetime

import pytest

from penstock.credentials import authority
from penstock.credentials.access import TABLE, AccessRole
from penstock.credentials.folder import LOOK, WatchedFolder, load_client, load_service
from penstock.credentials.guard import LocalGuard, TokenGuard
from penstock.credentials.http import admit, refusal, server_context
from penstock.credentials.local import LocalKey
from penstock.errors import Unauthenticated, WrongRole
from tests.credentials.keyring import made

PATHS = sorted(row.partition(" ")[2] for row in TABLE if row.startswith("GET "))


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture
def guard(keys):
    return TokenGuard(WatchedFolder(keys / "dispatcher", load_service))


def token(keys, role):
    return load_client(keys / role).token


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("role", [*AccessRole, None])
def test_each_path_is_for_its_roles_and_for_nobody_without_a_token(keys, guard, path, role):
    shown = f"Bearer {token(keys, role.value)}" if role else ""
    access = TABLE[f"GET {path}"]

    if access.anybody:
        assert admit(guard, "GET", path, shown) is None
    elif role in access.roles:
        assert admit(guard, "GET", path, shown).roles == {role}
    else:
        with pytest.raises((Unauthenticated, WrongRole)) as raised:
            admit(guard, "GET", path, shown)
        assert refusal(raised.value).status == (403 if role else 401)


def test_a_browser_shows_a_token_as_a_password(keys, guard):
    pair = base64.b64encode(f"me:{token(keys, 'reader')}".encode()).decode()

    assert admit(guard, "HEAD", "/metrics", f"basic {pair}").name == "reader 'reader'"
    with pytest.raises(Unauthenticated):
        admit(guard, "GET", "/metrics", "Basic ?")


def test_who_shows_nothing_is_asked_for_a_password_or_a_bearer(guard):
    with pytest.raises(Unauthenticated) as raised:
        admit(guard, "GET", "/metrics", "")
    said = refusal(raised.value)

    assert [name for name, _ in said.headers] == ["WWW-Authenticate"] * 2
    assert [value.partition(" ")[0] for _, value in said.headers] == ["Basic", "Bearer"]


def test_a_token_in_an_address_is_refused_and_not_repeated(keys, guard):
    secret = token(keys, "reader")
    for target in (f"/metrics?token={secret}", f"/{secret}", f"/metrics?x={secret}"):
        with pytest.raises(Unauthenticated, match="in the address") as raised:
            admit(guard, "GET", target, f"Bearer {secret}")
        assert secret not in str(raised.value)


def test_what_is_not_in_the_table_is_for_nobody(keys, guard):
    shown = f"Bearer {token(keys, 'operator')}"
    for method, path in (("POST", "/metrics"), ("GET", "/other"), ("GET", "/metrics/")):
        with pytest.raises(WrongRole, match="for nobody"):
            admit(guard, method, path, shown)


def test_on_loopback_one_may_look_without_a_token(tmp_path):
    guard = LocalGuard(LocalKey(tmp_path), lambda: 8080)

    assert admit(guard, "GET", "/metrics", "") is None
    with pytest.raises(Unauthenticated):
        admit(guard, "POST", "/metrics", "")


class Clock:
    now = 0.0

    def __call__(self):
        self.now += LOOK  # each look is at the files
        return self.now


def test_tls_shows_the_certificate_that_is_there_now(tmp_path):
    keys = made(tmp_path / "keys", "localhost")
    context = server_context(WatchedFolder(keys / "dispatcher", load_service, Clock()))
    first, again = shown_by(context), shown_by(context)
    authority.renew(keys, (), datetime.now(UTC))
    second = shown_by(context)

    assert first == again
    assert first != second == ssl.PEM_cert_to_DER_cert((keys / "dispatcher/tls.crt").read_text())


def shown_by(context):
    """Return the certificate that a connection gets."""
    near, far = socket.socketpair()
    asked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asked.check_hostname, asked.verify_mode = False, ssl.CERT_NONE
    serving = threading.Thread(target=lambda: context.wrap_socket(far, server_side=True).close())
    serving.start()
    with near, asked.wrap_socket(near) as tls:
        found = tls.getpeercert(binary_form=True)
        assert tls.version() == "TLSv1.3"
    serving.join(10)
    return found
