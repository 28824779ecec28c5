"""What tf.data does for each question of `bench_saved`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import saved_work as saved
import tensorflow as tf
from tensorflow_rows import Again, service, serving, version
from work import MIB

__all__ = ["ready", "version"]

_SPEC = {"id": tf.TensorSpec((), tf.int64), "data": tf.TensorSpec((MIB,), tf.uint8)}


def _save(path: Path) -> None:
    tf.data.Dataset.from_generator(saved.elements, output_signature=_SPEC).save(str(path))


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have a service of two workers, each a process; give the rows."""
    path = saved.folder() / "tf.data"
    _save(path)
    loaded = tf.data.Dataset.load(str(path))
    whole = service.ShardingPolicy.OFF  # what `save` wrote cannot be shared by DYNAMIC
    with serving() as target:
        far = loaded.apply(service.distribute(whole, target, compression=None))
        yield {
            "save": saved.saving(_save),
            "load": saved.touched(Again(loaded.as_numpy_iterator)),
            "far load": saved.touched(Again(far.as_numpy_iterator)),
        }
