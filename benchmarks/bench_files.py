"""How fast does Penstock read the files that people have, beside pyarrow, HF datasets and others?

The same files and the same two cores, in turn, each contestant in its own process and environment.
A last question asks whether two workers that share one large file are both busy to its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from contests import ROOT, Question, arguments, compared, python_of
from measure import show

PEERS = ("torch_file", "ray_file", "mosaic_file")
SHARE, QUICK_SHARE = 1.0, 0.1

QUESTIONS = (
    Question(
        "Parquet rows → batches of 1,024, in process",
        "rows/s",
        (
            ("penstock_file", "table: bare", "pyarrow.dataset, one thread"),
            ("penstock_file", "table: bare, threads", "pyarrow.dataset"),
            ("torch_file", "table", "HF datasets, streaming"),
            ("penstock_file", "table", "Penstock"),
        ),
    ),
    Question(
        "Parquet rows → batches of 1,024, two workers",
        "rows/s",
        (
            ("torch_file", "far table", "HF datasets, DataLoader(num_workers=2)"),
            ("ray_file", "far table", "Ray Data, two processors"),
            ("penstock_file", "far table", "Penstock"),
        ),
    ),
    Question(
        "tar of JPEG → float32 batches of 32, two workers",
        "images/s",
        (
            ("torch_file", "pictures", "webdataset, DataLoader(num_workers=2)"),
            ("penstock_file", "pictures", "Penstock"),
        ),
    ),
    Question(
        "JSON lines packed by zstd, in process",
        "lines/s",
        (
            ("torch_file", "documents", "HF datasets, streaming"),
            ("penstock_file", "documents", "Penstock"),
        ),
    ),
    Question(
        "MDS of token ids → batches of 32, two workers",
        "samples/s",
        (
            ("mosaic_file", "samples", "Mosaic Streaming, DataLoader(num_workers=2)"),
            ("penstock_file", "samples", "Penstock"),
        ),
    ),
    Question(
        "MDS in an object store that answers after 30 ms → batches of 32, two workers",
        "samples/s",
        (
            ("mosaic_file", "far samples", "Mosaic Streaming, DataLoader(num_workers=2)"),
            ("penstock_file", "far samples", "Penstock"),
        ),
    ),
    Question(
        "the first of these batches, of a new pass",
        "ms",
        (
            ("mosaic_file", "far first batch", "Mosaic Streaming, DataLoader(num_workers=2)"),
            ("penstock_file", "far first batch", "Penstock"),
        ),
    ),
    Question(
        "one file of JSON lines on two workers: share of the pass that the less busy one works",
        "",
        (("penstock_file", "one file", "Penstock"),),
    ),
)


def make(folder: Path, share: float, *, peers: bool) -> None:
    """Write the files: a format of a peer's own by that peer."""
    pythons = [Path(sys.executable), *([python_of("mosaic")] * peers)]
    for python in filter(Path.exists, pythons):
        script = ROOT / "benchmarks/peers/file_work.py"
        subprocess.run([python, script, folder, str(share)], check=True)


@contextmanager
def object_store(folder: str) -> Iterator[Mapping[str, str]]:
    """Serve *folder* as a bucket; give the variables that name the store, for all libraries."""
    script = str(ROOT / "benchmarks/peers/object_store.py")
    with subprocess.Popen(
        [sys.executable, script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        yield {
            "AWS_ENDPOINT_URL": url,
            "S3_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        server.stdin.close()


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), QUICK_SHARE if options.quick else SHARE, peers=options.peers)
        with object_store(folder) as variables:
            os.environ.update(variables, BENCH_FILES=folder)
            figures = compared(QUESTIONS, "penstock_file", PEERS, options)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
