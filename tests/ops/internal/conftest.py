from tests.storage.conftest import bucket

__all__ = ["bucket"]
