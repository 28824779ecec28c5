"""The compose file, as it is written."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
FOLDERS = ("dispatcher", "worker", "reader", "trainer", "operator")


def test_a_health_check_starts_no_python():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]

    for name in ("dispatcher", "worker"):
        assert "python" not in " ".join(services[name]["healthcheck"]["test"])
        assert services[name]["environment"]["PENSTOCK_HEALTH_FILE"]


def test_each_role_has_a_volume_and_keys_are_kept_out_of_git():
    keys = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["keys"]
    mounted = {volume.partition(":")[2] for volume in keys["volumes"]}

    assert mounted == {"/keys/authority", *(f"/keys/{folder}" for folder in FOLDERS)}
    assert "/keys/" in (ROOT / ".gitignore").read_text().split()
