"""Compression of whole frames, and its end; `codec_choice` decides which codec pays."""

from __future__ import annotations

import functools
import sys
import threading
from types import ModuleType
from typing import Any, assert_never

import lz4.block

from penstock.errors import DatasetError, VersionMismatch
from penstock.extras import needed
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.types import Codec

LEAST = 1 << 10
"""Fewer bytes travel as they are."""

_MOST = 0x7E00_0000
"""More than this LZ4 does not take in one block."""
_LZ4_EXPANSION = 255
_ZSTD_EXPANSION = 1 << 15
"""No stored byte stands for more: so a length that was made up is not allocated. ZSTD has blocks of
4 bytes that stand for 128 KiB."""
_LEVEL = 1
"""With 3, token ids take 1.8 times as long, and leave no less: see `benchmarks/README.md`."""
_WINDOW_LOG = 23
"""The largest window, 8 MiB (1 << 23): frames that need more memory were not made by Penstock."""


def compress(payload: memoryview, codec: Codec) -> bytes | None:
    """Return *payload* compressed, or None where it should travel as it is.

    Other threads run meanwhile.
    """
    if not LEAST <= payload.nbytes <= _MOST:
        return None
    match codec:
        case Codec.NONE | Codec.SNAPPY:  # Snappy is for elements that TensorFlow's clients get
            return None
        case Codec.LZ4:
            stored: bytes = lz4.block.compress(payload, store_size=False)
        case Codec.ZSTD:
            stored = _zstd_compressor().compress(payload, zstd_module().ZstdCompressor.FLUSH_FRAME)
        case Codec.AUTO:
            raise ValueError(f"frames have no {codec.name}: `codec_choice.CodecChooser` chooses")
        case _:
            assert_never(codec)
    return stored if len(stored) < payload.nbytes else None


def decompress(stored: memoryview | bytes, codec: Codec, raw_nbytes: int) -> memoryview:
    """Return the payload that was stored, in fresh memory.

    Other threads run meanwhile. A `bytearray` owns the memory where it may be written to.

    Raises:
        VersionMismatch: when this is no such payload.
    """
    raw: bytes | bytearray
    try:
        match codec:
            case Codec.LZ4:
                raw = _lz4_decompressed(stored, raw_nbytes)
            case Codec.ZSTD:
                raw = _zstd_decompressed(stored, raw_nbytes)
            case Codec.NONE | Codec.AUTO | Codec.SNAPPY:
                raise ValueError(f"{codec.value!r} is not how bytes are stored")
            case _:
                assert_never(codec)
    except (lz4.block.LZ4BlockError, *MALFORMED) as exc:
        raise VersionMismatch(
            f"a frame's {len(stored)} stored bytes are no {codec.name} block of {raw_nbytes} bytes "
            f"({exc}): the sender is of a version that this one does not know, or the frame was "
            "damaged"
        ) from exc
    return memoryview(raw)


def _lz4_decompressed(stored: memoryview | bytes, raw_nbytes: int) -> bytearray:
    _check_nbytes(stored, raw_nbytes, _LZ4_EXPANSION)
    raw: bytearray = lz4.block.decompress(
        stored, uncompressed_size=raw_nbytes, return_bytearray=True
    )
    if len(raw) != raw_nbytes:
        raise ValueError(f"it holds {len(raw)}")
    return raw


def _zstd_decompressed(stored: memoryview | bytes, raw_nbytes: int) -> bytes:
    _check_nbytes(stored, raw_nbytes, _ZSTD_EXPANSION)
    zstd = zstd_module()
    try:
        said = zstd.get_frame_info(stored).decompressed_size
        if said != raw_nbytes:
            raise ValueError(f"its own header says {said}")
        # Its memory grows with the output.
        limit = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
        block = zstd.ZstdDecompressor(options=limit)
        raw: bytes = block.decompress(stored, max_length=raw_nbytes + 1)
    except zstd.ZstdError as exc:
        raise ValueError(str(exc)) from exc
    if not block.eof or block.unused_data or len(raw) != raw_nbytes:
        raise ValueError(f"{len(raw)} came out of it, and it does not end there")
    return raw


def _check_nbytes(stored: memoryview | bytes, raw_nbytes: int, expansion: int) -> None:
    if not 0 <= raw_nbytes <= min(_MOST, expansion * len(stored)):
        raise ValueError("the size does not fit the stored bytes")


@functools.cache
def zstd_module() -> ModuleType:
    """Return the module, loaded when the first frame needs it."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415
    else:
        from backports import zstd  # noqa: PLC0415
    return zstd


_contexts = threading.local()


def _zstd_compressor() -> Any:
    """Return this thread's compressor, whose tables are made once."""
    if not hasattr(_contexts, "compressor"):
        _contexts.compressor = zstd_module().ZstdCompressor(_LEVEL)
    return _contexts.compressor


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


def snappy_content(block: bytes) -> bytes:
    """Return what `snappy_block` was given.

    Raises:
        ValueError: when it is no such block.
    """
    cramjam = needed("cramjam", "reading blocks of Snappy")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as exc:
        raise ValueError(f"this is no block of Snappy: {exc}") from exc
