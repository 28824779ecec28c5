"""One cluster of real processes at a time, shared by the tests that do not kill anything."""

from contextlib import contextmanager

import pytest

from penstock_cluster import LocalCluster


class Clusters:
    """Hands out the shared cluster, or closes it while somebody needs one of their own."""

    def __init__(self):
        self._shared = None

    def shared(self):
        if self._shared is None:
            self._shared = LocalCluster(workers=2)
            self._shared.start()
        return self._shared

    @contextmanager
    def own(self, *args, **kwargs):
        self.close()
        with LocalCluster(*args, **kwargs) as cluster:
            yield cluster

    def close(self):
        if self._shared is not None:
            self._shared.stop()
            self._shared = None


@pytest.fixture(scope="session")
def clusters():
    held = Clusters()
    yield held
    held.close()


@pytest.fixture
def cluster(clusters):
    """Two workers; kill nothing here."""
    return clusters.shared()
