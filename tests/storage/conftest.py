import pytest

from penstock.storage import fetching, retries, stores
from tests.storage.stand_in import served


@pytest.fixture
def bucket(monkeypatch):
    """An S3 server, which the environment names, with credentials."""
    with served() as made:
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(retries, "_FIRST", 0.001)
        monkeypatch.setattr(retries, "INFO_PATIENCE", 0.2)
        stores.opened.cache_clear()
        fetching._forget()
        yield made
        stores.opened.cache_clear()
        fetching._forget()
