"""Sources that read files, of this machine or of any file system that fsspec knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from penstock import files as file_names
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.graph.traversal import DatasetBase
from penstock.ops.array_records import ArrayRecords
from penstock.ops.csv import Csv
from penstock.ops.fixed_length_records import FixedLengthRecords
from penstock.ops.internal.csv_columns import columns_of
from penstock.ops.json_lines import JsonRecords
from penstock.ops.list_files import ListFiles
from penstock.ops.mds import Mds, shards_of
from penstock.ops.text_lines import TextLines
from penstock.ops.tfrecords import TFRecords
from penstock.ops.webdataset import WebDataset, decoded, decoders_of, fields


class FileSources(DatasetBase):
    """Class methods that return a new dataset of the contents of files."""

    __slots__ = ()

    @classmethod
    def list_files(
        cls,
        file_pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        shuffle: bool | None = None,
        seed: int | None = None,
    ) -> Self:
        """Return a dataset of file names, each a `str`, that match a pattern or one of several.

        The files are searched when the dataset is read.

        Args:
            file_pattern: a glob pattern, such as ``"data/*.csv"`` or ``"s3://bucket/**/*.txt"``, or
                a sequence of patterns. Relative ones become absolute names.
            shuffle: by default names come in random order, a new one in each pass; False sorts
                them.
            seed: makes the order the same for each new iterator; see `shuffle`.

        Raises:
            DatasetError: when a pattern is no path, or *seed* no integer.
            MissingFile: during reading, when a pattern matches no file.

        >>> from pathlib import Path
        >>> for name in ("b.txt", "a.txt", "c.bin"):
        ...     Path(name).touch()
        >>> [Path(name).name for name in Dataset.list_files("*.txt", shuffle=False)]
        ['a.txt', 'b.txt']
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
        r"""Return a dataset of the lines of UTF-8 text files, each a `str` without its line end.

        Workers share a large file by byte ranges. Files compressed by gzip, bzip2, xz or Zstandard
        are recognised by their first bytes and decompressed; one worker reads all of such a file.

        Args:
            files: as for `json_lines`. Names without a pattern are read in their order.
            errors: what to do with bytes that are not UTF-8, as in `bytes.decode`.
                ``"surrogateescape"`` keeps each as a lone surrogate, with which the text can be
                encoded again but not printed; ``"replace"`` puts a question mark (U+FFFD) in the
                place of each; ``"ignore"`` leaves them out; ``"strict"`` makes an error of the
                line, with its place in the file, for `ignore_errors` to leave out.

        Raises:
            DatasetError: when a name is no path or a folder, or *errors* none of the four.
            MissingFile: during reading, when a file does not exist or a pattern matches nothing.
            TransformError: in the place of a line that is not UTF-8, under ``"strict"``.

        >>> from pathlib import Path
        >>> _ = Path("poem.txt").write_text("one\ntwo\n")
        >>> list(Dataset.text_lines("poem*.txt"))
        ['one', 'two']
        """
        found = file_names.wanted("text_lines", "files", files)
        return cls(TextLines(found.patterns, errors, literal=found.literal))

    @classmethod
    def fixed_length_records(
        cls,
        filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        compression_type: str | None = None,
    ) -> Self:
        """Return a dataset of the records of binary files, each `bytes` of one length.

        Workers share a large file by byte ranges.

        Args:
            filenames: as for `text_lines`.
            record_bytes: the length of a record, in bytes, at least 1.
            header_bytes: how many bytes to skip at the beginning of each file; None is 0.
            footer_bytes: how many bytes to skip at the end of each file; None is 0.
            compression_type: ``"GZIP"``, ``"ZLIB"``, or None. With None, files whose names end with
                .gz, .bz2, .xz or .zst are decompressed. Lengths are those of the content.

        Raises:
            DatasetError: when an argument is malformed.
            MissingFile: during reading, when a file does not exist or a pattern matches nothing.
            TransformError: after the last whole record of a file that is cut short.

        >>> from pathlib import Path
        >>> _ = Path("pairs.bin").write_bytes(b"#aabbcc")
        >>> list(Dataset.fixed_length_records("pairs.bin", 2, header_bytes=1))
        [b'aa', b'bb', b'cc']
        """
        found = file_names.wanted("fixed_length_records", "filenames", filenames)
        sizes = record_bytes, header_bytes or 0, footer_bytes or 0
        compression: Any = compression_type
        return cls(FixedLengthRecords(found.patterns, *sizes, compression, literal=found.literal))

    @classmethod
    def tfrecords(
        cls,
        filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        compression_type: str | None = None,
    ) -> Self:
        """Return a dataset of the records of TFRecord files, each `bytes`; checksums are checked.

        Workers share a large file that is not compressed by byte ranges.

        Args:
            filenames: as for `text_lines`.
            compression_type: ``"GZIP"``, ``"ZLIB"``, or None. With None, files compressed by gzip,
                bzip2, xz or Zstandard are recognised by their first bytes.

        Raises:
            DatasetError: when an argument is malformed.
            MissingFile: during reading, when a file does not exist or a pattern matches nothing.
            TransformError: in the place of a record whose data is damaged. If its length is
                damaged, the rest of the file is skipped.

        >>> import struct
        >>> from pathlib import Path
        >>> import google_crc32c
        >>> def checksum(data):
        ...     crc = google_crc32c.value(data)
        ...     masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
        ...     return struct.pack("<I", masked)
        >>> length = struct.pack("<Q", 5)
        >>> record = length + checksum(length) + b"hello" + checksum(b"hello")
        >>> _ = Path("words.tfrecord").write_bytes(record)
        >>> list(Dataset.tfrecords("words.tfrecord"))
        [b'hello']
        """
        found = file_names.wanted("tfrecords", "filenames", filenames)
        compression: Any = compression_type
        return cls(TFRecords(found.patterns, compression, literal=found.literal))

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
        *,
        newlines_in_values: bool = True,
    ) -> Self:
        r"""Return a dataset of the rows of CSV files: dicts of NumPy scalars and `str`.

        It needs pyarrow: ``pip install "penstock[csv]"``.

        Args:
            filenames: as for `text_lines`. All files have the same columns.
            column_names: by default those of the first file's header.
            column_defaults: for each column name, a type (`int`, ``np.float32``, `str`, `bytes`) if
                every field must have a value, or a default value of the type. The types of other
                columns are guessed from the first rows of the first file: float64 (NaN without a
                value), text (empty without a value), or int64 or bool. Fields of int64 and bool
                must have values.
            select_columns: the columns to read, in this order; by default all.
            field_delim: the character between fields, one ASCII character.
            use_quote_delim: False reads double quotes as text.
            na_value: a text that means "no value", like an empty field.
            header: whether files begin with a row of names.
            compression_type: as for `tfrecords`.
            newlines_in_values: False says that no quoted value has a line break in it. Then workers
                share a large file; otherwise one worker reads all of it.

        Raises:
            DatasetError: when an argument is malformed; during reading, when a column does not
                exist or pyarrow is not installed.
            MissingFile: during reading, when a file does not exist or a pattern matches nothing.
            TransformError: in the place of a row that is malformed, or of all rows of a file whose
                header is not that of the first.

        >>> from pathlib import Path
        >>> _ = Path("people.csv").write_text("name,age\nAda,36\nAlan,41\n")
        >>> rows = Dataset.csv("people.csv", column_defaults={"age": np.int32})
        >>> [(row["name"], int(row["age"])) for row in rows]
        [('Ada', 36), ('Alan', 41)]
        """
        found = file_names.wanted("csv", "filenames", filenames)
        names: Any = column_names
        selected: Any = select_columns
        compression: Any = compression_type
        return cls(
            Csv(
                found.patterns,
                names,
                columns_of({} if column_defaults is None else column_defaults),
                selected,
                field_delim,
                bool(use_quote_delim),
                na_value,
                bool(header),
                compression,
                bool(newlines_in_values),
                literal=found.literal,
            )
        )

    @classmethod
    def json_lines(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        nulls: Mapping[str, Any] | None = None,
    ) -> Self:
        r"""Return a dataset of the values of files that have one JSON value in each line.

        Workers share a large file by byte ranges. Files compressed by gzip, bzip2, xz or Zstandard
        are recognised by their first bytes; one worker reads all of such a file.

        Args:
            files: a name, or a pattern such as ``"s3://bucket/part-{000..099}.jsonl"`` or
                ``"data/*.jsonl"``, or a sequence of these. The files of a pattern are sorted.
            nulls: what to put in the place of ``null``, by key of the dict in a line.

        Raises:
            DatasetError: when a name is no path.
            MissingFile: during reading, when a file does not exist or a pattern matches nothing.
            FileChanged: during reading, when a file is replaced.
            TransformError: in the place of a line that is no JSON, or holds ``null`` where *nulls*
                has no value, with its place in the file.

        >>> from pathlib import Path
        >>> _ = Path("a.jsonl").write_text('{"x": 1, "tags": [2, 3]}\n{"x": 4, "tags": []}\n')
        >>> [element["tags"].shape for element in Dataset.json_lines("a.jsonl")]
        [(2,), (0,)]
        """
        return cls(
            JsonRecords(
                file_names.wanted("json_lines", "files", files), {} if nulls is None else nulls
            )
        )

    @classmethod
    def webdataset(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        select: str | Sequence[str] | None = None,
        decode: str | Mapping[str, str | Callable[[bytes], Any]] | None = None,
        *,
        lazy: bool = False,
    ) -> Self:
        """Return a dataset of the samples of tar files in WebDataset's format.

        Neighbouring files with one key are a sample: ``a/7.jpg`` and ``a/7.json`` have the key
        ``a/7``, and the fields ``jpg`` and ``json``. An element is a dict of the fields as `bytes`,
        with ``__key__`` and ``__url__``, the key and the tar file as text. Workers share a large
        local tar file; one worker reads all of a remote or compressed one.

        Args:
            files: as for `json_lines`.
            select: the fields to read, as ``"jpg;json"`` or a list. Others are not read from disk.
            decode: how to decode fields: ``"pil"`` decodes images to arrays of uint8, by Pillow,
                and fields with known names (``json``, ``txt``, ``cls``, ``npy``); ``"json"``
                decodes ``json`` only; or a dict from field to one of these names or to your
                function of bytes.
            lazy: read only the headers of the tar files. Fields are then `Reference` values of
                about 100 bytes, which shuffle cheaply; `resolve` reads and decodes them later. Tar
                files must not be compressed.

        Raises:
            DatasetError: when an argument is malformed.
            MissingFile, FileChanged: as for `json_lines`.
            TransformError: in the place of a sample that is damaged, or that has one field twice.

        >>> import io, tarfile
        >>> with tarfile.open("a.tar", "w") as tar:
        ...     for name, data in [("7.txt", b"seven"), ("7.cls", b"3"), ("8.txt", b"eight")]:
        ...         info = tarfile.TarInfo(name)
        ...         info.size = len(data)
        ...         tar.addfile(info, io.BytesIO(data))
        >>> for sample in Dataset.webdataset("a.tar", decode={"txt": "txt"}):
        ...     print(sample["__key__"], sample["txt"], sample.get("cls"))
        7 seven b'3'
        8 eight None
        """
        pattern = file_names.wanted("webdataset", "files", files)
        if lazy and decode is not None:
            raise DatasetError(
                "webdataset: with lazy=True there are no bytes to decode yet: give decode to "
                "resolve, as in webdataset(files, lazy=True).shuffle(1000).resolve(decode='pil')"
            )
        decoders = decoders_of(decode)
        dataset = cls(WebDataset(pattern, fields(select), bool(lazy)))
        return dataset if decoders is None else cls(decoded(dataset.node, decoders))

    @classmethod
    def mds(cls, folder: str | os.PathLike[str], *, pickled: bool = False) -> Self:
        """Return a dataset of the samples of a folder in Mosaic Streaming's format (MDS), as dicts.

        The index of the folder is read at once, and its hashes are checked when a shard is read.
        Images in the encoding ``pil`` become arrays; those in ``jpeg`` and ``png`` stay `bytes`.

        Args:
            folder: the folder of ``index.json`` and the shards, compressed or not.
            pickled: read columns that hold pickled objects. To unpickle runs the writer's code.

        Raises:
            DatasetError: when the index is malformed or of another version, or has a pickled
                column and *pickled* is false.
            MissingFile: when there is no index; during reading, when a shard does not exist.
            FileChanged: during reading, when a shard is replaced.
            TransformError: in the place of a damaged sample or shard.

        >>> from pathlib import Path
        >>> _ = Path("index.json").write_text('{"version": 2, "shards": []}')
        >>> list(Dataset.mds("."))
        []
        """
        name, *others = file_names.names("mds", "folder", folder)
        if others:
            raise DatasetError(
                f"mds: folder must be one folder, not {folder!r}; `concatenate` joins datasets"
            )
        shards = shards_of(name, pickled=pickled)
        return cls(Mds(file_names.literally(tuple(shards)), shards))

    @classmethod
    def array_records(
        cls, files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    ) -> Self:
        """Return a dataset of the records of ArrayRecord files, each `bytes`.

        Workers share a large local file by its records. One worker copies a remote file to its
        temporary folder, and reads it there.

        Args:
            files: as for `json_lines`.

        Raises:
            DatasetError: when a name is no path.
            MissingExtra: when array_record is not installed:
                ``pip install "penstock[array-record]"``.
            MissingFile, FileChanged: as for `json_lines`.
            TransformError: in the place of a damaged record, and for a file of another format.

        >>> from array_record.python.array_record_module import ArrayRecordWriter
        >>> writer = ArrayRecordWriter("a.array_record")
        >>> for record in (b"one", b"two"):
        ...     _ = writer.write(record)
        >>> writer.close()
        >>> list(Dataset.array_records("a.array_record"))
        [b'one', b'two']
        """
        needed("array_record", "Dataset.array_records")
        return cls(ArrayRecords(file_names.wanted("array_records", "files", files)))
