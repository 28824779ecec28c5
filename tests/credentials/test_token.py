"""Tokens: what counts, and what is said of the rest."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from penstock.credentials.access import AccessRole
from penstock.credentials.token import LONGEST, SKEW, TrustedKeys, issue, key_id, seconds_of
from penstock.errors import ConfigError, Unauthenticated

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
TRUSTED = TrustedKeys([KEY.public_key()])


def token(key=KEY, role=AccessRole.READER, now=1000.0, lasts=100.0):
    return issue(key, role, "ann", now=now, lasts=lasts)


def forged(key=KEY, **claims):
    """Return a token of *key* with other claims than `issue` would make."""
    whole = {"role": "reader", "name": "ann", "issued": 0, "expires": 9e9}
    whole |= {"key": key_id(key.public_key()), **claims}
    body = json.dumps(whole).encode()
    parts = (body, key.sign(b"penstock1." + body))
    return ".".join(
        ["penstock1", *(base64.urlsafe_b64encode(p).decode().rstrip("=") for p in parts)]
    )


@pytest.mark.parametrize("role", AccessRole)
def test_a_token_says_whom_it_is_of_with_which_role_and_until_when(role):
    identity = TRUSTED.identity(token(role=role), now=1050.0)

    assert identity.roles == {role}
    assert identity.expires == 1100.0
    assert "'ann'" in identity.name


def test_two_signing_keys_count_at_once():
    both = TrustedKeys([KEY.public_key(), OTHER.public_key()])

    for key in (KEY, OTHER):
        assert both.identity(token(key), now=1000.0).roles == {AccessRole.READER}


@pytest.mark.parametrize(
    "given, now, words",
    [
        (token(OTHER), 1000, "another cluster"),
        (token(), 1100 + SKEW + 1, "expired 1970-01-01 00:18:20 UTC"),
        (token(), 1000 - SKEW - 1, "one of the two clocks is off"),
        (token()[:-8] + "AAAAAAAA", 1000, "changed after it was signed"),
        (token() + "!", 1000, "damaged"),
        ("penstock1.e30.e30", 1000, "damaged"),
        ("penstock2.x.y", 1000, "no token of Penstock"),
        ("", 1000, "no token of Penstock"),
        ("penstock1." + "A" * LONGEST + ".A", 1000, "no token of Penstock"),
        (forged(role="king"), 1000, "role 'king'"),
        (forged(expires=1e300, issued=1e300), 1000, "clocks is off"),
    ],
    # Tokens are drawn anew in each process, and the names of tests are the same in all.
    ids=range(11),
)
def test_a_token_that_does_not_count_says_why_and_shows_nothing_of_itself(given, now, words):
    with pytest.raises(Unauthenticated) as raised:
        TRUSTED.identity(given, now)

    assert words in str(raised.value)
    assert not given or given not in str(raised.value)


def test_clocks_may_differ_by_a_minute_either_way():
    assert TRUSTED.identity(token(), 1000 - SKEW + 1)
    assert TRUSTED.identity(token(), 1100 + SKEW - 1)


def test_claims_cannot_be_changed_without_the_key():
    head, _, signature = token().split(".")
    claims = (
        base64.urlsafe_b64encode(
            json.dumps(
                {
                    "role": "operator",
                    "name": "ann",
                    "issued": 0,
                    "expires": 9e9,
                    "key": key_id(KEY.public_key()),
                }
            ).encode()
        )
        .decode()
        .rstrip("=")
    )

    with pytest.raises(Unauthenticated, match="changed"):
        TRUSTED.identity(f"{head}.{claims}.{signature}", 1000)


@given(
    st.one_of(
        st.text(max_size=300),
        st.binary(max_size=300).map(
            lambda data: "penstock1." + base64.urlsafe_b64encode(data).decode() + ".AAAA"
        ),
    )
)
def test_whatever_is_shown_is_refused_with_an_error_of_ours(text):
    with pytest.raises(Unauthenticated):
        TRUSTED.identity(text, 1000)


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1w", "1.5h", "9" * 30 + "d"])
def test_a_time_that_is_none_is_refused_with_what_would_be_one(text):
    with pytest.raises(ConfigError, match="30d"):
        seconds_of(text)


@pytest.mark.parametrize("name, lasts", [("", 1), ("x" * 101, 1), ("x", 0), ("x", float("nan"))])
def test_a_token_has_a_name_and_lasts(name, lasts):
    with pytest.raises(ConfigError):
        issue(KEY, AccessRole.READER, name, now=0, lasts=lasts)


@pytest.mark.parametrize(
    "pem", [b"", b"x", b"-----BEGIN PUBLIC KEY-----\nAA\n-----END PUBLIC KEY-----"]
)
def test_trusted_keys_that_are_none_are_refused(pem):
    with pytest.raises(ConfigError, match=r"trusted\.keys"):
        TrustedKeys.from_pem(pem)
