"""The elements of a pipeline of tf.data, which a function builds where they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.graph.node import INFINITE, UNKNOWN, function_name
from penstock.graph.traversal import DatasetBase
from penstock.normalise import normalise
from penstock.ops.generator import Generator
from penstock.ops.sequence import ItemReader, Items


class TfStream:
    """The elements that *fn* builds a pipeline of, for `from_generator`."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self.fn = fn

    def __call__(self) -> Iterator[Any]:
        """Return all elements."""
        return self.behind(0)

    def behind(self, steps: int) -> Iterator[Any]:
        """Return the elements after the first *steps*, which tf.data skips by itself."""
        built = built_by(self.fn)
        elements: Iterator[Any] = (built.skip(steps) if steps else built).as_numpy_iterator()
        return elements


class TfWhole:
    """The function that returns all elements, for `flat_map` over one number."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self._stream = TfStream(fn)

    def __call__(self, _number: Any) -> DatasetBase:
        """Return the elements as a dataset."""
        return DatasetBase.concrete(Generator(self._stream, ()))


class TfItems(Items):
    """As many elements as *size*, by their numbers: a run reads on from where it begins."""

    indexed: ClassVar[bool] = False

    def __init__(self, fn: Callable[[], Any], size: int) -> None:
        self._fn, self._size = fn, size

    @property
    def label(self) -> str:
        """See `Items.label`."""
        return f"from_tf({function_name(self._fn)})"

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: int) -> Any:
        return next(TfStream(self._fn).behind(number))

    def open(self) -> ItemReader:
        """See `Items.open`."""
        return _TfReader(TfStream(self._fn), self.label, self._size)


class _TfReader(ItemReader):
    """Reads in sequence. For a number that is not the next, it starts again and skips to it."""

    def __init__(self, stream: TfStream, label: str, size: int) -> None:
        self._stream, self._label, self._size = stream, label, size
        self._elements: Iterator[Any] = iter(())
        self._next = -1

    def block(self, numbers: Sequence[int]) -> Block:
        """See `ItemReader.block`."""
        return [normalise(self._element(number)) for number in numbers]

    def close(self) -> None:
        """See `ItemReader.close`."""
        self._elements, self._next = iter(()), -1

    def _element(self, number: int) -> Any:
        if number != self._next:
            self._elements = self._stream.behind(number)
        self._next = -1  # until it is known that this one came
        for element in self._elements:
            self._next = number + 1
            return element
        raise DatasetError(
            f"{self._label}: the pipeline ended before element {number}, and its size was given, "
            f"or found, as {self._size}: it must have the same elements each time it is built"
        )


def built_by(fn: Callable[[], Any]) -> Any:
    """Return the `tf.data.Dataset` that *fn* builds.

    Raises:
        DatasetError: when it returns anything else.
        MissingExtra: when TensorFlow is not installed here.
    """
    tf = needed("tensorflow", "Dataset.from_tf")
    built = fn()
    if not isinstance(built, tf.data.Dataset):
        raise DatasetError(
            f"from_tf: {function_name(fn)} must return a tf.data.Dataset, not "
            f"{type(built).__name__}"
        )
    return built


def size_of(fn: Callable[[], Any]) -> int:
    """Return how many elements the pipeline has that *fn* builds; builds it, and reads nothing.

    `UNKNOWN`, where TensorFlow does not know either.

    Raises:
        DatasetError: as `built_by`.
        MissingExtra: as `built_by`.
    """
    size = int(built_by(fn).cardinality())
    return size if size >= 0 or size == INFINITE else UNKNOWN
