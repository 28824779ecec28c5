"""Two processes of one job, with `DistributedDataParallel` over gloo: equal steps, one state."""

from pathlib import Path

import numpy as np
import pytest

from penstock import Dataset
from penstock.torch import Loader
from tests.frameworks.processes import run_ranks

PROGRAM = Path(__file__).parent / "ddp_program.py"


@pytest.mark.parametrize("mode", ["coordinated", "shared"])
def test_ranks_make_equally_many_steps_in_each_pass_and_have_one_state(cluster, tmp_path, mode):
    passes = zip(*run_ranks(PROGRAM, 2, cluster.target, mode, f"ranks {mode}", log=tmp_path))

    for number, ranks in enumerate(passes):
        (epoch, steps, _, _, state), other = ranks
        assert [epoch, steps] == other[:2]
        assert (epoch, state["input"]) == (number, other[4]["input"])
        assert state["steps"] == 4
        seen = [x for rank in ranks for x in rank[3]]
        assert len(set(seen)) == len(seen)
        if mode == "shared":  # 21 batches: one rank has the last one in hand, and is told so
            assert (steps, sum(rank[2] for rank in ranks)) == (10, 1)
            assert len(seen) == 100
        else:  # what fills no round of a task is left out
            assert steps in (9, 10)


def test_one_process_goes_on_from_the_state_of_two(cluster, tmp_path):
    (first, second) = run_ranks(PROGRAM, 2, cluster.target, "shared", "ranks to one", log=tmp_path)
    state = first[0][4]
    read = Dataset.from_tensor_slices(np.arange(105).reshape(21, 5))
    with Loader(read.distribute("distributed_epoch", cluster.target, "ranks, one")) as loader:
        loader.load_state_dict(state)
        rest = [x for batch in loader for x in batch.tolist()]

    before = [x for rank in (first, second) for x in rank[0][3][:20]]
    assert sorted(before + rest) == list(range(105))
