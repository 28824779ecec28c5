"""Two processes of `MultiWorkerMirroredStrategy` read in rounds, and go on from checkpoints."""

from pathlib import Path

from tests.frameworks.processes import free_port, run_ranks

PROGRAM = Path(__file__).parent / "mirrored_program.py"


def test_workers_step_together_and_go_on_from_a_checkpoint(cluster, tmp_path):
    read = []
    for part in ("first", "second"):
        ports = free_port(), free_port()
        ((one,), (two,)) = run_ranks(
            PROGRAM, 2, cluster.target, tmp_path, *ports, part, log=tmp_path
        )
        assert one["sums"] == two["sums"]
        assert sum(one["sums"]) == sum(one["seen"] + two["seen"])
        read += one["seen"] + two["seen"]

    assert len(set(read)) == len(read)
    assert len(read) >= 88  # a task whose batches fill no round leaves one out
