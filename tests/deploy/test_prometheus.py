"""What Prometheus and Grafana are given names metrics that exist; a real Prometheus takes it."""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from penstock_cluster.cli.status import fetch
from penstock_dispatcher import DispatcherConfig, DispatchServer
from penstock_worker import WorkerConfig, WorkerServer
from tests.free_ports import free_port

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "penstock.json"
PAGE = ROOT / "docs" / "how-to" / "monitoring.md"

WITH_CREDENTIALS = {"penstock_certificate_expiry_timestamp_seconds"}
OF_OTHERS = {"up"}
"""Metrics that Prometheus itself makes."""


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Return where a dispatcher and a worker in this process answer HTTP."""
    cache = str(tmp_path_factory.mktemp("files"))
    with (
        DispatchServer(DispatcherConfig(http_port=0)) as dispatcher,
        WorkerServer(WorkerConfig(dispatcher.target, http_port=0, file_cache_dir=cache)),
    ):
        stats = json.loads(fetch(dispatcher.target))
        (worker,) = stats["workers"]
        yield [stats["http"], worker["stats"]["http"]]


@pytest.fixture(scope="module")
def families(addresses):
    """Return the metrics of both by the name of each of their series."""
    found = {}
    for address in addresses:
        for family in text_string_to_metric_families(get(f"{address}/metrics")):
            endings = {
                "counter": ["_total"],
                "histogram": ["_bucket", "_sum", "_count"],
            }.get(family.type, [""])
            found |= {family.name + ending: family for ending in endings}
    return found


def names_in(expression):
    """Return the metrics that an expression asks for."""
    without = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", "", expression)
    without = re.sub(r"\b(?:by|without)\s*\([^)]*\)", "", without)
    words = re.findall(r"[a-zA-Z_:][\w:]*(?!\w*\()", without)
    return {word for word in words if word.startswith(("penstock", "up", "job_name:", "process"))}


def expressions():
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    found = [rule["expr"] for rule in rules]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        found += [target["expr"] for target in panel["targets"]]
    return found, recorded


def test_rules_and_dashboard_ask_for_metrics_that_exist(families):
    found, recorded = expressions()
    asked = set().union(*map(names_in, found))

    assert len(asked) > 15
    assert asked <= set(families) | recorded | WITH_CREDENTIALS | OF_OTHERS


def test_each_rule_that_is_recorded_is_asked_for_or_on_the_page():
    found, recorded = expressions()
    asked = set().union(*map(names_in, found))

    assert all(name in asked or name in PAGE.read_text() for name in recorded)


def test_the_page_lists_each_metric_and_no_other(families):
    listed = set(re.findall(r"^\| `(penstock_\w+)`", PAGE.read_text(), re.MULTILINE))
    own = {family.name for family in families.values() if family.name.startswith("penstock_")}

    totals = {f"{family.name}_total" for family in families.values() if family.type == "counter"}
    named = {name if f"{name}_total" not in totals else f"{name}_total" for name in own}
    assert listed == named | WITH_CREDENTIALS


def test_panels_do_not_overlap_and_have_titles_of_their_own():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["title"] for panel in panels}) == len(panels)


def promtool(*args):
    ran = subprocess.run(
        ["promtool", *args], cwd=RULES.parent, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="no prometheus: Debian has a package of that name",
)


@pytest.mark.slow
@needs_prometheus
def test_the_rules_do_what_their_tests_say():
    promtool("check", "rules", "rules.yml")
    promtool("test", "rules", "rules_test.yml")
    promtool("check", "config", "prometheus.yml")


@pytest.mark.slow
@needs_prometheus
def test_a_real_prometheus_scrapes_both(addresses, tmp_path):
    targets = [address.removeprefix("http://") for address in addresses]
    config = yaml.safe_load((RULES.parent / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "100ms", "scrape_timeout": "100ms"}
    config["rule_files"] = [str(RULES)]
    for job, target in zip(config["scrape_configs"], targets, strict=True):
        job["static_configs"] = [{"targets": [target]}]
        job["scrape_timeout"] = "10s"
        job["scrape_interval"] = "10s"
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        try:
            up = asked(port, "up", 2)
            assert {float(each["value"][1]) for each in up} == {1.0}
            (workers,) = asked(port, 'penstock_workers{state="live"}', 1)
            assert workers["value"][1] == "1"
            assert workers["metric"]["job"] == "penstock-dispatcher"
        finally:
            running.terminate()


def asked(port, expression, count):
    """Return what a query gives, once it gives *count* series."""
    query = urllib.parse.urlencode({"query": expression})
    deadline = time.monotonic() + 60
    while True:
        try:
            found = json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?{query}"))
        except OSError:
            found = {"data": {"result": []}}
        if len(found["data"]["result"]) == count:
            return found["data"]["result"]
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_no_panel_shows_slots_which_may_be_overbooked():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]

    assert not [one for one in asked if "slots" in one]
    assert any("penstock_worker_cores" in one for one in asked)
