"""A dispatcher and a worker as processes, looked at by HTTP."""

import json
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.dataset.dataset import Dataset
from penstock_cluster.cli.status import fetch
from penstock_cluster.local import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("clusters")


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


@pytest.fixture(scope="module")
def cluster_with_http(clusters):
    clusters.close()
    with LocalCluster(
        workers=1, dispatcher=DispatcherConfig(http_port=0), worker=WorkerConfig(http_port=0)
    ) as cluster:
        yield cluster


@pytest.fixture
def seen(cluster_with_http):
    """Return where the dispatcher and the worker answer HTTP, as their status says."""
    stats = json.loads(fetch(cluster_with_http.target))
    (worker,) = stats["workers"]
    return stats["http"], worker["stats"]["http"]


def samples(address):
    """Return what is scraped at *address*: values by name and labels."""
    status, text = get(f"{address}/metrics")
    assert status == 200
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.slow
def test_a_scrape_counts_what_was_read(seen, cluster_with_http):
    far = Dataset.range(1000).distribute("distributed_epoch", cluster_with_http.target, "counted")
    assert len(list(far)) == 1000

    def counted():
        found = samples(seen[0])
        return found.get(("penstock_elements_acked_total", "counted")) == 1000

    wait_until(counted)
    # A worker tells of itself once a second.
    wait_until(lambda: samples(seen[1])["penstock_worker_elements_made_total",] >= 1000)
    dispatcher, worker = map(samples, seen)
    assert dispatcher["penstock_iterations_unbalanced", "counted"] == 0
    assert dispatcher["penstock_workers", "live"] == 1
    assert dispatcher["penstock_calls_total", "Dispatcher/OpenIteration"] >= 1
    assert dispatcher["penstock_journal_write_seconds_count",] >= 0
    assert dispatcher["process_resident_memory_bytes",] > 0
    assert worker["penstock_worker_memory_bytes",] > 0


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_both_are_alive_and_ready(seen, path):
    for address in seen:
        assert get(address + path) == (200, "ok\n")
