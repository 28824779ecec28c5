"""TensorFlow's own `PreemptionCheckpointHandler` saves our place with the model, on all workers."""

import json
from pathlib import Path

from tests.frameworks.processes import SECONDS, Ranks, free_port

PROGRAM = Path(__file__).parent / "preempted_program.py"
RESTART = 42
"""With which it ends a process that is to be started again."""


def started(cluster, folder, life):
    args = cluster.target, folder / "saved", free_port(), free_port(), life
    return Ranks(PROGRAM, 2, *args, log=folder)


def test_both_workers_stop_behind_a_step_and_go_on_with_nothing_lost_or_repeated(cluster, tmp_path):
    ranks = started(cluster, tmp_path, "first")
    try:
        one, two = ranks.processes
        before = [one.stdout.readline() for _ in range(5)]
        two.terminate()
        read = [[*before, *one.stdout], [*two.stdout]]
        codes = [process.wait(SECONDS) for process in ranks.processes]
    finally:
        ranks.kill()
    first = [[json.loads(line[5:]) for line in lines if line.startswith("said")] for lines in read]

    again = started(cluster, tmp_path, "second")
    try:
        second = again.heard()
    finally:
        again.kill()

    assert codes == [RESTART, RESTART], [each.errors() for each in ranks.processes]
    assert 5 < len(first[0]) == len(first[1]) < 40
    ends = [steps.pop() for steps in second]
    assert ends == [{"total": sum(range(320)), "steps": 40}] * 2
    elements = [x for steps in first + second for batch in steps for x in batch]
    assert sorted(elements) == list(range(320))
