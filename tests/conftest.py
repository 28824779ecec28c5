"""One cluster of real processes at a time, shared by the tests that do not kill anything.

Behind each test that read from one, the account of every pass that is over must balance.
"""

import gc
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.credentials import caller
from penstock.executors import process_pool
from penstock.saved import upkeep
from penstock_cluster.cli.status import fetch
from penstock_cluster.fork_servers import held
from penstock_cluster.local import LocalCluster
from penstock_worker.runner import fork

# Hundreds of processes import the packages: that takes half the time when they are compiled once.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the tests in the background has it ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes, and how long it takes to make it, says how busy the machine is.
settings.register_profile(
    "any machine",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("any machine"), max_examples=20)


def pytest_configure(config):
    """Give laws fewer examples where slow tests are left out: `make test-all` tries them all."""
    settings.load_profile("quick" if _leaves_out_slow(config) else "any machine")


def _leaves_out_slow(config):
    return "not slow" in config.option.markexpr


@pytest.fixture(scope="session")
def quick(request):
    """Whether slow tests are left out, so that deep tests may look at fewer places."""
    return _leaves_out_slow(request.config)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items):
    """Have one process run all tests that start clusters; those that share one, side by side."""
    examples = Counter()
    for item in items:
        if "clusters" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("clusters"))
        if quick := item.get_closest_marker("quick"):
            examples[item.function] += 1
            if examples[item.function] > quick.args[0]:
                item.add_marker(pytest.mark.slow)
    items.sort(key=_place)


def pytest_collection_finish():
    """Keep what is there for good out of the collections that tests of leaks ask for."""
    _first_law()  # Hypothesis asks who refers to its generator: what is frozen is not found
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _reports_are_not_searched():
    """Keep the reports of ten thousand tests out of these collections, too: each took a second."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _credentials_are_forgotten():
    """Forget which credentials an address had: the port may come again, for another service."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caller, "_chosen", {})
        yield


@pytest.fixture(scope="module")
def indexes_apart(tmp_path_factory):
    """Keep indexes of files out of the cache folder of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@settings(max_examples=1, database=None)
@given(st.none())
def _first_law(_):
    """Hypothesis makes what it keeps for good with the first law that it tries."""


def _place(item):
    shared = [fixture not in item.fixturenames for fixture in ("cluster", "one_worker", "clusters")]
    return shared, "another" in item.fixturenames


@pytest.fixture
def no_threads_of_other_tests():
    """Begin a test that counts threads without those of iterators that another test dropped.

    What was dropped in a circle of references is closed when the collector comes to it. The pool of
    processes keeps a thread as long as it keeps processes for later.
    """
    gc.collect()
    process_pool.close()
    deadline = time.monotonic() + 10
    while left := [t for t in threading.enumerate() if t.name.startswith("penstock")]:
        assert time.monotonic() < deadline, f"threads that another test left: {left}"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def function_processes_end():
    """End the processes of `map(executor="process")` behind a module that starts some."""
    yield
    process_pool.close()
    deadline = time.monotonic() + 20
    while "penstock-keeper" in [thread.name for thread in threading.enumerate()]:
        assert time.monotonic() < deadline, "the pool's thread goes on after it was closed"
        time.sleep(0.001)


class Clusters:
    """Hands out the shared cluster, or closes it while somebody needs one of their own."""

    def __init__(self):
        self._shared = None

    def shared(self, workers):
        if self._shared is not None and len(self._shared.workers) != workers:
            self.close()
        if self._shared is None:
            self._shared = LocalCluster(workers=workers)
            self._shared.start()
        return self._shared

    @contextmanager
    def own(self, *args, **kwargs):
        self.close()
        with LocalCluster(*args, **kwargs) as cluster:
            yield cluster
            if cluster.dispatcher.running:
                assert faults(cluster) == {}

    def check(self):
        if self._shared is not None:
            assert faults(self._shared) == {}

    def close(self):
        if self._shared is not None:
            self._shared.stop()
            self._shared = None


def faults(cluster):
    """Where the accounts of passes do not balance, by iteration."""
    passes = json.loads(fetch(cluster.target))["iterations"]
    return {it["iteration"]: (it["faults"], it["account"]) for it in passes if it["faults"]}


@pytest.fixture(scope="session")
def shared_server():
    """Have the runners of all pools here forked by one server: no pool waits for its own."""
    with held() as servers:
        servers.start()
        fork.share(servers.runners)
        yield servers.runners
        fork.share(None)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory, shared_server):
    if "PYTEST_XDIST_WORKER" in os.environ:  # fails where a second process comes here
        (tmp_path_factory.getbasetemp().parent / "has the clusters").touch(exist_ok=False)
    clusters = Clusters()
    yield clusters
    clusters.close()


@pytest.fixture
def cluster(clusters):
    """Two workers; kill nothing here."""
    yield clusters.shared(workers=2)
    clusters.check()


@pytest.fixture
def one_worker(clusters):
    """A cluster with one worker, for tests about order; kill nothing here."""
    yield clusters.shared(workers=1)
    clusters.check()


@pytest.fixture
def another(clusters):
    """Starts a cluster in place of the shared one that a test began with."""
    return clusters.own


@pytest.fixture
def an_hour_later(monkeypatch):
    """Called when a dataset was replaced: lets its readers have had their hour."""
    return lambda: monkeypatch.setattr(upkeep, "GRACE", 0.0)
