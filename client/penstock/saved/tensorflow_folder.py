"""The folder of ``tf.data.experimental.distributed_save``, which TensorFlow reads.

    snapshot.metadata, dataset_spec.pb    the structure of elements, and the compression
    chunks/chunk_0_<number>_<elements>    another name of each chunk
    DONE or ERROR                         empty, or the error at which the save stopped

TensorFlow's readers take each file in ``chunks/``, and whoever follows a save lists that folder
again. So a chunk gets its name there once a version has it, and that chunk is never replaced.
Source: ``core/data/service/snapshot/path_utils.cc`` of TensorFlow 2.21.
"""

from __future__ import annotations

from penstock.protocol.recording import SaveStage
from penstock.saved.folder import SaveFolder
from penstock.saved.manifest import SavedVersion

METADATA, SPEC, CHUNKS, DONE, ERROR = (
    "snapshot.metadata",
    "dataset_spec.pb",
    "chunks",
    "DONE",
    "ERROR",
)


def announce(folder: SaveFolder, spec: bytes, compression: str | None) -> None:
    """Write what readers need to begin. *spec* is a ``StructuredValue``."""
    about = f'element_spec: "{_escaped(spec)}"\ncompression: "{compression or ""}"\n'
    for name, data in ((SPEC, spec), (METADATA, about.encode())):
        with folder.writing(name):
            folder.write(name, data)


def publish(folder: SaveFolder, version: SavedVersion, since: int) -> None:
    """Give the chunks of *version* from number *since* on their names, and tell how it ended.

    Doing it again changes nothing.
    """
    for number in range(since, len(version.chunks)):
        name = f"{CHUNKS}/chunk_0_{number}_{version.chunks[number].count}"
        with folder.writing(name):
            folder.copy(version.names[number], name)
    now = version.manifest
    if now.stage is SaveStage.COMPLETE:
        with folder.writing(DONE):
            folder.write(DONE, b"")
    elif now.stage is not SaveStage.OPEN:
        why = now.error or "the save was cancelled"
        status = f'code: INVALID_ARGUMENT\nmessage: "{_escaped(why.encode())}"\n'
        with folder.writing(ERROR):
            folder.write(ERROR, status.encode())


def _escaped(data: bytes) -> str:
    """Return *data* as a string of protobuf's text format."""
    return "".join(
        f"\\{byte:03o}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte) for byte in data
    )
