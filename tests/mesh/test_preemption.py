"""Trainers in processes of their own: one is told to stop, and all stop and go on elsewhere."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from penstock_cluster import LocalCluster

NUMBER = 8000

TRAINER = """
    import json, sys, time
    from pathlib import Path
    import penstock
    from penstock import Dataset

    target, folder, number, name = sys.argv[1:]
    folder = Path(folder)
    before = sorted(folder.glob("state-*"))
    state = json.loads(before[0].read_text()) if before and name.startswith("late") else None
    numbers = Dataset.range(8000).distribute("distributed_epoch", target, "train")
    elements = numbers.iterator(state)
    got = []

    def save(step, states):
        (folder / f"state-{name}").write_text(json.dumps(states[0]))
        (folder / f"step-{name}").write_text(str(step))

    def step():
        got.append(int(next(elements)))
        time.sleep(0.0 if name.startswith("late") else 0.004)

    with penstock.PreemptionHandler([elements], save, target=target) as handler:
        try:
            while True:
                handler.run(step)
                if len(got) == 20:
                    print("READY", flush=True)
                    sys.stdin.readline()  # all read before one can have read all
        except StopIteration:
            pass
        finally:
            (folder / f"got-{name}").write_text(json.dumps(got))
"""


class Trainers:
    def __init__(self, target, folder):
        self.target, self.folder = target, folder
        self.script = folder / "trainer.py"
        self.script.write_text(textwrap.dedent(TRAINER))
        self.running = {}

    def start(self, *names):
        for name in names:
            command = [sys.executable, str(self.script), self.target, str(self.folder), "2", name]
            env = {**os.environ, "PENSTOCK_NO_PLATFORM": "1"}
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
            )
        for name in names:
            assert "READY" in self.running[name].stdout.readline()
        for name in names:
            self.running[name].stdin.write("go\n")
            self.running[name].stdin.flush()

    def ended(self, *names):
        codes = {}
        for name in names:
            process = self.running[name]
            process.communicate(timeout=60)
            codes[name] = process.returncode
        return codes

    def got(self):
        return [
            number
            for file in sorted(self.folder.glob("got-*"))
            for number in json.loads(file.read_text())
        ]

    def steps(self):
        return {file.name: int(file.read_text()) for file in self.folder.glob("step-*")}

    def close(self):
        for process in self.running.values():
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


@pytest.fixture
def trainers(clusters, tmp_path):
    clusters.close()
    with LocalCluster(2, work_dir=tmp_path / "dispatcher") as cluster:
        folder = tmp_path / "trainers"
        folder.mkdir()
        found = Trainers(cluster.target, folder)
        found.cluster = cluster
        yield found
        found.close()


@pytest.mark.slow
def test_all_stop_at_one_step_and_three_go_on_where_two_were(trainers):
    trainers.start("a", "b")
    trainers.running["a"].send_signal(signal.SIGTERM)
    trainers.cluster.dispatcher.restart()
    codes = trainers.ended("a", "b")

    assert codes == {"a": 42, "b": 42}
    assert len(set(trainers.steps().values())) == 1
    before = trainers.got()
    assert 0 < len(before) < NUMBER

    trainers.start("late 1", "late 2", "late 3")
    trainers.ended("late 1", "late 2", "late 3")

    assert sorted(trainers.got()) == list(range(NUMBER))
