"""What `penstock keys` makes, and how keys are changed while all go on."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.credentials import authority
from penstock.credentials.access import AccessRole
from penstock.credentials.folder import load_client, load_service
from penstock.credentials.token import TrustedKeys
from penstock.errors import ConfigError, Unauthenticated
from tests.credentials.keyring import NOW, made

ROLES = ["dispatcher", "reader", "trainer", "worker", "operator"]


@pytest.fixture
def keys(tmp_path):
    return made(tmp_path / "keys", "data.example", "10.0.0.7", now=NOW)


def roles_of(keys, folder="worker"):
    """Return what the tokens of all folders are good for, by what *folder* trusts."""
    trusted = TrustedKeys.from_pem(load_service(keys / folder).trusted)
    shown = {name: load_client(keys / name).token for name in ROLES}
    return {name: trusted.identity(one, NOW.timestamp()).roles for name, one in shown.items()}


def test_each_role_has_a_folder_with_its_token(keys):
    assert roles_of(keys) == {
        "dispatcher": {AccessRole.OPERATOR},
        **{role.value: {role} for role in AccessRole},
    }


def test_a_certificate_names_its_role_loopback_and_of_a_dispatcher_its_hosts(keys):
    def names(role):
        shown = x509.load_pem_x509_certificate(load_client(keys / role).tls.certificate)
        found = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [str(name.value) for name in found]

    here = ["localhost", "127.0.0.1", "::1"]
    assert names("dispatcher") == [
        "dispatcher.penstock.internal",
        *here,
        "data.example",
        "10.0.0.7",
        "operator.penstock.internal",
    ]
    assert names("worker") == ["worker.penstock.internal", *here]
    for role in ("reader", "trainer", "operator"):
        assert names(role) == [f"{role}.penstock.internal"]


def test_certificates_are_signed_by_the_ca_that_all_trust(keys):
    ca = x509.load_pem_x509_certificate(load_client(keys / "reader").tls.ca)

    for role in ROLES:
        shown = x509.load_pem_x509_certificate(load_client(keys / role).tls.certificate)
        shown.verify_directly_issued_by(ca)
        assert shown.not_valid_before_utc < NOW < shown.not_valid_after_utc
        usages = shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert ExtendedKeyUsageOID.CLIENT_AUTH in usages
        is_server = ExtendedKeyUsageOID.SERVER_AUTH in usages
        assert is_server == (role in ("dispatcher", "worker"))


def test_both_services_seal_definitions_alike_and_clients_cannot(keys):
    assert (
        load_service(keys / "worker").definitions == load_service(keys / "dispatcher").definitions
    )
    assert not (keys / "trainer" / "definitions.key").exists()
    assert not (keys / "trainer" / "trusted.keys").exists()


def test_a_person_gets_a_certificate_and_a_token_that_end_together(keys, tmp_path):
    authority.personal(keys, tmp_path / "ann", AccessRole.TRAINER, "ann" * 30, NOW, 3600.0)
    found = load_client(tmp_path / "ann")
    shown = x509.load_pem_x509_certificate(found.tls.certificate)

    identity = TrustedKeys.from_pem(load_service(keys / "worker").trusted).identity(
        found.token, NOW.timestamp()
    )
    assert identity.expires == shown.not_valid_after_utc.timestamp() == NOW.timestamp() + 3600
    (name,) = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == ("ann" * 30)[:64]
    shown.verify_directly_issued_by(x509.load_pem_x509_certificate(found.tls.ca))


def test_an_authority_is_not_overwritten(keys):
    with pytest.raises(ConfigError, match="keys renew"):
        authority.init(keys, (), NOW)


def test_certificates_are_renewed_for_other_hosts_with_the_same_ca(keys):
    before = load_service(keys / "dispatcher")

    authority.renew(keys, ("new.example",), NOW + timedelta(days=300))

    after = load_service(keys / "dispatcher")
    assert after.client.tls.ca == before.client.tls.ca
    assert after.trusted == before.trusted
    shown = x509.load_pem_x509_certificate(after.client.tls.certificate)
    found = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "new.example" in found.get_values_for_type(x509.DNSName)
    assert shown.not_valid_after_utc > NOW + timedelta(days=600)


def test_keys_are_changed_in_two_steps_and_two_of_each_count_at_any_time(keys):
    first = load_service(keys / "worker")
    old = TrustedKeys.from_pem(first.trusted)
    old_token, now = load_client(keys / "trainer").token, NOW.timestamp()

    _, in_use = authority.rotate(keys, NOW)
    second = load_service(keys / "worker")
    assert not in_use
    # Who has the folders from before, and who has those of now, may be mixed.
    assert old.identity(load_client(keys / "trainer").token, now)
    assert second.client.tls.ca.count(b"BEGIN") == second.trusted.count(b"BEGIN") == 2

    _, in_use = authority.rotate(keys, NOW)
    third = load_service(keys / "worker")
    new_token = load_client(keys / "trainer").token
    assert in_use
    assert third.client.tls.ca.count(b"BEGIN") == 2
    for one in (second, third):
        trusted = TrustedKeys.from_pem(one.trusted)
        assert trusted.identity(old_token, now)
        assert trusted.identity(new_token, now)
    with pytest.raises(Unauthenticated):
        old.identity(new_token, now)

    authority.rotate(keys, NOW)
    with pytest.raises(Unauthenticated, match="taken out of use"):
        TrustedKeys.from_pem(load_service(keys / "worker").trusted).identity(old_token, now)


@pytest.mark.parametrize("host", ["", "a b", "a..b", "x" * 64, "ü.example", "http://a", "a:1"])
def test_a_host_that_is_none_is_refused(tmp_path, host):
    with pytest.raises(ConfigError, match="neither a name nor an IP"):
        authority.init(tmp_path / "keys", (host,), NOW)


def test_where_there_is_no_authority_the_error_says_how_to_make_one(tmp_path):
    for act in (authority.renew, authority.token):
        with pytest.raises(ConfigError, match="penstock keys init"):
            act(tmp_path, (), NOW) if act is authority.renew else act(
                tmp_path, AccessRole.READER, "a", 0, 1
            )
