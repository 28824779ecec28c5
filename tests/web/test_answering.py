"""A dispatcher and a worker as processes, looked at by HTTP."""

import json
import urllib.error
import urllib.request

import pytest

from penstock_cluster.cli.status import fetch
from penstock_cluster.local import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig

pytestmark = pytest.mark.xdist_group("clusters")


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


@pytest.fixture(scope="module")
def seen(clusters):
    """Return where the dispatcher and the worker of a cluster answer HTTP, as its status says."""
    clusters.close()
    with LocalCluster(
        workers=1, dispatcher=DispatcherConfig(http_port=0), worker=WorkerConfig(http_port=0)
    ) as cluster:
        stats = json.loads(fetch(cluster.target))
        (worker,) = stats["workers"]
        yield stats["http"], worker["stats"]["http"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_both_are_alive_and_ready(seen, path):
    for address in seen:
        assert get(address + path) == (200, "ok\n")
