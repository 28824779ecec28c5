"""How fast does Penstock read the files that people have, beside pyarrow, HF datasets and others?

The same files and the same two cores, in turn, each contestant in its own process and environment.
A last question asks whether two workers that share one large file are both busy to its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), QUICK_SHARE if options.quick else SHARE, peers=options.peers)
        os.environ["BENCH_FILES"] = folder
        figures = compared(QUESTIONS, "penstock_file", PEERS, options)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
