"""Snappy, which TensorFlow's own clients know. It is an extra: nothing else here is packed so."""

from __future__ import annotations

from penstock.errors import DatasetError


def snappy_block(content: bytes) -> bytes:
    """Return *content* as one block of Snappy, without a frame around it.

    Raises:
        DatasetError: when the extra is not installed.
    """
    try:
        import cramjam  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as exc:
        raise DatasetError(
            "the dataset is registered with compression='SNAPPY', and this worker has no Snappy: "
            "pip install 'penstock[snappy]' on all workers, or register it with compression=None"
        ) from exc
    return bytes(cramjam.snappy.compress_raw(content))
