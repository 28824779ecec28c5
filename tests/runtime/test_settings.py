"""Settings survive the environment, and nonsense names its variable."""

from dataclasses import dataclass

import pytest

from penstock.errors import ConfigError
from penstock.runtime.settings import from_env, to_env


@dataclass(frozen=True)
class Config:
    port: int = 0
    host: str = "127.0.0.1"
    lease: float = 5.0
    work_dir: str | None = None
    limit: int | None = 3
    safe: bool = False
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(9, "::1", 0.25, "/tmp/x y", None, True, ("a:1", "b")),
    ],
)
def test_a_config_survives_the_environment(config):
    assert from_env(Config, to_env(config)) == config


def test_what_is_not_set_keeps_its_default():
    assert from_env(Config, {"PENSTOCK_PORT": "7", "OTHER": "x"}) == Config(port=7)


@pytest.mark.parametrize(
    ("name", "text"),
    [("PENSTOCK_PORT", "web"), ("PENSTOCK_LEASE", "soon"), ("PENSTOCK_SAFE", "maybe")],
)
def test_nonsense_names_the_variable_and_its_value(name, text):
    with pytest.raises(ConfigError, match=f"{name}='{text}'"):
        from_env(Config, {name: text})
