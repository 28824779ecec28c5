"""What `distribute` is given: what it stands for, and what is refused."""

from pathlib import Path

import pytest

from penstock.errors import DatasetError
from penstock.protocol.types import Codec, Mode, ShardingPolicy
from penstock.reader import arguments


@pytest.mark.parametrize(
    "given, mode",
    [
        ("parallel_epochs", Mode.OFF),
        (ShardingPolicy.OFF, Mode.OFF),
        (ShardingPolicy.FILE, Mode.FILE),
        (ShardingPolicy.DATA, Mode.DATA),
        (ShardingPolicy.FILE_OR_DATA, Mode.FILE_OR_DATA),
        (ShardingPolicy.HINT, Mode.HINT),
        ("distributed_epoch", Mode.DYNAMIC),
        (ShardingPolicy.DYNAMIC, Mode.DYNAMIC),
    ],
)
def test_a_mode_has_an_older_name(given, mode):
    assert arguments.mode_of(given) is mode


@pytest.mark.parametrize("given", ["epochs", None, 1])
def test_what_is_no_mode_is_refused_with_the_names_there_are(given):
    with pytest.raises(DatasetError, match="'parallel_epochs' or 'distributed_epoch'"):
        arguments.mode_of(given)


@pytest.mark.parametrize("given", ["h:1", "grpc://h:1", ("grpc", "h:1")])
def test_an_address_may_name_its_protocol(given):
    assert arguments.address_of(given) == "h:1"


@pytest.mark.parametrize(
    "given",
    ["", "h", "h:", "h:0", "h:65536", "http://h:1", "grpc://grpc://h:1", "h/x:1", 5, ("grpc",)],
)
def test_a_malformed_address_is_refused(given):
    with pytest.raises(DatasetError, match="service"):
        arguments.address_of(given)


@pytest.mark.parametrize(
    "given, codec",
    [(None, Codec.NONE), ("LZ4", Codec.LZ4), ("ZSTD", Codec.ZSTD), ("AUTO", Codec.AUTO)],
)
def test_a_codec_has_a_name(given, codec):
    assert arguments.codec_of(given) is codec
    with pytest.raises(DatasetError, match="compression"):
        arguments.codec_of(f"{given}?")


def test_a_job_name_is_short_text_or_none():
    assert arguments.job_name_of(None) is None
    assert arguments.job_name_of("j") == "j"
    for given in ("", " ", 3, "x" * 100_000):
        with pytest.raises(DatasetError, match="job_name"):
            arguments.job_name_of(given)


def test_which_workers_are_read_is_written_in_any_case():
    assert [arguments.target_workers_of(given) for given in ("local", "Any", "AUTO", "")] == [
        "LOCAL",
        "ANY",
        "AUTO",
        "AUTO",
    ]
    for given in ("NEAR", None, 3):
        with pytest.raises(DatasetError, match="'AUTO', 'ANY' or 'LOCAL'"):
            arguments.target_workers_of(given)


def test_a_transport_that_nobody_registered_is_refused_by_naming_those_there_are():
    assert [arguments.transport_of(given) for given in (None, "grpc", "local")] == [
        None,
        "grpc",
        "local",
    ]
    with pytest.raises(DatasetError, match="None or one of 'grpc', 'local', 'shm', not 'tcp'"):
        arguments.transport_of("tcp")


@pytest.mark.parametrize(
    "given, service, env, folder",
    [
        (None, "h:1", {}, None),
        (None, "h:1", {"PENSTOCK_CREDENTIALS": "e"}, None),
        (None, "grpc://h:1", {"PENSTOCK_CREDENTIALS": "e"}, ""),
        (None, "grpcs://h:1", {"PENSTOCK_CREDENTIALS": "e"}, "e"),
        ("f", "h:1", {"PENSTOCK_CREDENTIALS": "e"}, "f"),
        (Path("f"), "grpcs://h:1", {}, "f"),
        ("f", ("grpcs", "h:1"), {}, "f"),
    ],
)
def test_credentials_are_those_given_or_the_variable_s_and_none_for_grpc(
    given, service, env, folder
):
    assert arguments.credentials_of(given, service, env) == folder


@pytest.mark.parametrize(
    "given, service, words",
    [
        (None, "grpcs://h:1", "PENSTOCK_CREDENTIALS"),
        ("f", "grpc://h:1", "say grpcs://"),
        (5, "h:1", "must be a folder's path"),
    ],
)
def test_credentials_that_contradict_the_address_are_refused_with_the_remedy(given, service, words):
    with pytest.raises(DatasetError, match=words):
        arguments.credentials_of(given, service, {})


@pytest.mark.parametrize("service", ["grpcs://secret@h:1", "grpc://h:1?token=secret", "secret@h:1"])
def test_a_token_in_an_address_is_refused_and_not_repeated(service):
    with pytest.raises(DatasetError, match="must not hold a token") as raised:
        arguments.address_of(service)

    assert "secret" not in str(raised.value)
