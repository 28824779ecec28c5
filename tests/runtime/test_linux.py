import sys

import pytest

from penstock.errors import ConfigError
from penstock.runtime.linux import check_linux, check_service


def test_on_linux_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")

    check_linux("map(executor='process')", "use threads")
    check_service("a worker")


def test_elsewhere_the_system_and_the_remedy_are_named(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    with pytest.raises(ConfigError, match="needs Linux, and this is darwin: use threads"):
        check_linux("map(executor='process')", "use threads")
    with pytest.raises(ConfigError, match="a worker needs Linux.*container"):
        check_service("a worker")
