"""Where elements come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from penstock.element import is_flat, leaves, rebuild
from penstock.errors import DatasetError
from penstock.graph.dataset_base import DatasetBase
from penstock.graph.node import Node
from penstock.ops.choose_from_datasets import ChooseFromDatasets
from penstock.ops.counter import Counter
from penstock.ops.csv import Csv
from penstock.ops.fixed_length_records import FixedLengthRecords
from penstock.ops.generator import Generator
from penstock.ops.internal.csv_columns import columns_of
from penstock.ops.list_files import ListFiles
from penstock.ops.random import Random
from penstock.ops.range import Range
from penstock.ops.sample_from_datasets import SampleFromDatasets
from penstock.ops.sequence import sequence_of
from penstock.ops.slices import Slices
from penstock.ops.tensors import Tensors
from penstock.ops.text_lines import TextLines
from penstock.ops.tfrecords import TFRecords
from penstock.ops.zip import Zip


class Sources(DatasetBase):
    """Class methods that return a new dataset."""

    __slots__ = ()

    @classmethod
    def range(cls, *args: int) -> Self:
        """Return int64 scalars, as `range` does: ``(stop)``, ``(start, stop)`` or with a step."""
        if not 1 <= len(args) <= 3:
            raise DatasetError(f"range: give stop, or start and stop, or a step too, not {args!r}")
        start, stop = (0, args[0]) if len(args) == 1 else args[:2]
        return cls(Range(start, stop, args[2] if len(args) == 3 else 1))

    @classmethod
    def from_tensors(cls, tensors: Any) -> Self:
        """Return a single element: *tensors*, a nest of array-likes."""
        return cls(Tensors(tensors))

    @classmethod
    def from_tensor_slices(cls, tensors: Any) -> Self:
        """Cut *tensors*, a nest of array-likes, along the first axis, which all must share.

        >>> list(Dataset.from_tensor_slices({"x": [[1, 2], [3, 4]], "y": ["a", "b"]}))
        [{'x': array([1, 2]), 'y': 'a'}, {'x': array([3, 4]), 'y': 'b'}]
        """
        return cls(Slices(tensors))

    @classmethod
    def from_sequence(cls, obj: Any) -> Self:
        """Return the items of *obj*: a list, a map-style dataset, anything with length and items.

        ``obj[i]`` is called when element *i* is wanted, and not before.
        """
        return cls(sequence_of(obj))

    @classmethod
    def from_generator(
        cls, generator: Callable[..., Iterable[Any]], args: Sequence[Any] | None = None
    ) -> Self:
        """Return what the iterable ``generator(*args)`` gives.

        A generator cannot be moved to a place, and it cannot be split. A state is restored by
        running it again up to there (though nothing behind it), and `distribute` cannot give
        parts of it to different workers. Where the data has numbers, use `from_sequence`.
        """
        return cls(Generator(generator, () if args is None else args))

    @classmethod
    def list_files(
        cls,
        file_pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        shuffle: bool | None = None,
        seed: int | None = None,
    ) -> Self:
        """Return the names of the files that match a pattern, or several, local or remote.

        They come in random order, a new one in each pass, unless *shuffle* is False: then sorted.
        """
        patterns: Any = file_pattern
        return cls(ListFiles(patterns, shuffle is not False, seed))

    @classmethod
    def text_lines(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        errors: str = "surrogateescape",
    ) -> Self:
        """Return the lines of text files, local or remote, as `str` without the end of line.

        Text is UTF-8. *errors* says what becomes of other bytes, as in `bytes.decode`:
        ``"surrogateescape"`` keeps each as a lone surrogate, with which the text can be encoded
        again but not printed; ``"replace"`` puts a question mark (U+FFFD) in the place of each;
        ``"ignore"`` leaves them out; ``"strict"`` makes an error of the line, with its place in the
        file, for `ignore_errors` to leave out.
        """
        names: Any = files
        return cls(TextLines(names, errors))

    @classmethod
    def fixed_length_records(
        cls,
        filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        compression_type: str | None = None,
    ) -> Self:
        """Return the records of binary files, *record_bytes* each, as `bytes`.

        Each file may have a header and a footer, and be compressed: ``"GZIP"`` or ``"ZLIB"``. A
        file that is cut short is an error behind its last whole record.
        """
        names: Any = filenames
        header, footer = header_bytes or 0, footer_bytes or 0
        compression: Any = compression_type
        return cls(FixedLengthRecords(names, record_bytes, header, footer, compression))

    @classmethod
    def tfrecords(
        cls,
        filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        compression_type: str | None = None,
    ) -> Self:
        """Return the records of TFRecord files, as `bytes`; their checksums are checked.

        Files may be compressed: ``"GZIP"`` or ``"ZLIB"``. A record whose data is damaged is an
        error in its place; if its length is, the rest of the file is given up.
        """
        names: Any = filenames
        compression: Any = compression_type
        return cls(TFRecords(names, compression))

    @classmethod
    def csv(
        cls,
        filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        column_names: Sequence[str] | None = None,
        column_defaults: Mapping[str, Any] | None = None,
        select_columns: Sequence[str] | None = None,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        header: bool = True,
        compression_type: str | None = None,
    ) -> Self:
        """Return the rows of CSV files, as dicts: numbers as NumPy scalars, text as `str`.

        A row that is malformed is an error in its place. Needs pyarrow: ``penstock[csv]``.

        Args:
            filenames: the files, local or remote. All have the same columns.
            column_names: by default those of the first file's header.
            column_defaults: for columns by name a type (`int`, ``np.float32``, `str`, `bytes`),
                whose fields must have values, or a value of the type for those that have none.
                The types of other columns are guessed from the first rows of the first file, as
                float64 (NaN where there is no value), text (empty there), or int64 or bool, whose
                fields must have values.
            select_columns: which columns to read, in this order; by default all.
            field_delim: what separates fields.
            use_quote_delim: False takes double quotes for text.
            na_value: what stands for no value, beside nothing.
            header: whether files begin with a row of names.
            compression_type: ``"GZIP"`` or ``"ZLIB"``.
        """
        files: Any = filenames
        names: Any = column_names
        selected: Any = select_columns
        compression: Any = compression_type
        return cls(
            Csv(
                files,
                names,
                columns_of({} if column_defaults is None else column_defaults),
                selected,
                field_delim,
                bool(use_quote_delim),
                na_value,
                bool(header),
                compression,
            )
        )

    @classmethod
    def counter(cls, start: int = 0, step: int = 1) -> Self:
        """Return int64 scalars from *start* on, *step* apart, without end.

        >>> list(Dataset.counter(5, 10).take(3).batch(3))
        [array([ 5, 15, 25])]
        """
        return cls(Counter(start, step))

    @classmethod
    def random(
        cls, seed: int | None = None, rerandomize_each_iteration: bool | None = None
    ) -> Self:
        """Return random int64 scalars from 0 to below 2**32, without end.

        Seeds are as for `shuffle`. The passes of a `repeat` behind it differ, unless
        *rerandomize_each_iteration* is False.
        """
        return cls(Random(seed, rerandomize_each_iteration is not False))

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[DatasetBase],
        weights: Sequence[float] | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Return elements of *datasets*, each time of a random one.

        Args:
            datasets: what to draw from.
            weights: how likely each is, in relation to the others; equally, by default.
            seed: as for `shuffle`.
            stop_on_empty_dataset: end when the first of them ends where its turn comes, and not
                when all have.
            rerandomize_each_iteration: False gives each pass of a `repeat` the same order.
        """
        nodes = _nodes("sample_from_datasets", datasets)
        shares: Any = weights
        again = rerandomize_each_iteration is not False
        return cls(SampleFromDatasets(nodes, shares, seed, stop_on_empty_dataset, again))

    @classmethod
    def choose_from_datasets(
        cls,
        datasets: Sequence[DatasetBase],
        choice_dataset: DatasetBase,
        stop_on_empty_dataset: bool = True,
    ) -> Self:
        """Return elements of *datasets*, each time of the one whose number comes next.

        The numbers are the elements of *choice_dataset*. One that has ended where its turn comes
        is the end, or is passed over without *stop_on_empty_dataset*.

        >>> both = [Dataset.range(3), Dataset.range(10, 13)]
        >>> choices = Dataset.range(2).repeat(3)
        >>> list(Dataset.choose_from_datasets(both, choices).batch(6))
        [array([ 0, 10,  1, 11,  2, 12])]
        """
        nodes = _nodes("choose_from_datasets", datasets)
        if not isinstance(choice_dataset, DatasetBase):
            raise DatasetError(
                f"choose_from_datasets: choice_dataset must be a Dataset, not {choice_dataset!r}"
            )
        return cls(ChooseFromDatasets(choice_dataset.node, nodes, stop_on_empty_dataset))

    @classmethod
    def zip(cls, *args: Any, datasets: Any = None) -> Self:
        """Put datasets side by side, as long as the shortest: ``zip(a, b)`` or ``zip((a, b))``.

        Any nest of datasets will do; elements have its structure.
        """
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        elif args:
            raise DatasetError("zip: give the datasets, or the keyword datasets, not both")
        parts = leaves(datasets)
        if not parts or not all(isinstance(part, DatasetBase) for part in parts):
            raise DatasetError(
                "zip: give datasets, or a nest of tuples and dicts of datasets (not of lists), "
                f"not {datasets!r}"
            )
        nodes = tuple(part.node for part in parts)
        flat = is_flat(datasets) and isinstance(datasets, tuple)
        return cls(Zip(nodes, None if flat else rebuild(datasets, [0] * len(parts))))


def _nodes(op: str, datasets: Any) -> tuple[Node, ...]:
    if not isinstance(datasets, Sequence) or not all(
        isinstance(one, DatasetBase) for one in datasets
    ):
        raise DatasetError(f"{op}: datasets must be a list of Datasets, not {datasets!r}")
    return tuple(dataset.node for dataset in datasets)
