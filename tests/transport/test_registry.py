"""Transports by name."""

import pytest

from penstock.errors import ConfigError
from penstock.protocol.nearness import Distance
from penstock.transport import registry
from penstock.transport.registry import TransportKind, names, register


def test_there_are_grpc_local_shm_and_tcp():
    assert names() == ["grpc", "local", "shm", "tcp"]


def test_another_one_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(registry, "KINDS", dict(registry.KINDS))

    register(TransportKind("shared", Distance.SAME_HOST, None))

    assert names() == ["grpc", "local", "shared", "shm", "tcp"]


def test_a_name_is_given_once():
    with pytest.raises(ConfigError, match="a transport 'grpc' already"):
        register(TransportKind("grpc", Distance.ELSEWHERE, None))
