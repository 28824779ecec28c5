"""The same command on every host of a launcher, as processes on this one."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from penstock.errors import ConfigError
from penstock_cluster.cli.launch.plan import LaunchPlan
from penstock_cluster.cli.launch.run import _worker, run
from penstock_cluster.cli.status import look
from tests.free_ports import free_port

# In one process, one after another: two of them have a dispatcher at the port that is the default.
pytestmark = pytest.mark.xdist_group("launch")

RUN = [sys.executable, "-m", "penstock_cluster.cli.app", "run"]
LAUNCHERS = ("TF_CONFIG", "RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "PENSTOCK_TARGET")
ELEMENTS = 2000

TRAIN = """
    import sys
    import penstock
    from penstock import Dataset

    place = penstock.cluster_environment()
    got = []
    if place.role.trains:
        numbers = Dataset.range(2000).distribute("distributed_epoch", "env", "train")
        got = [int(x) for x in numbers]
    print("GOT", place.role.value, place.index, len(got), sum(got), flush=True)
"""


class Hosts:
    """Hosts that run the same script, each told by variables who it is."""

    def __init__(self, script):
        self.script = script
        self.running = []

    def start(self, variables, *options):
        env = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
        # What is left behind is found by this mark. Lines are whole, however wide the screen is.
        mark = {"PENSTOCK_TEST_RUN": str(os.getpid()), "COLUMNS": "300"}
        host = subprocess.Popen(
            [*RUN, *options, str(self.script)],
            env={**env, **variables, **mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.running.append(host)
        return host

    def ended(self, within=60):
        """Return what all hosts printed and their exit codes, by the order of their start."""
        said = [""] * len(self.running)

        def hear(number):
            said[number] = self.running[number].communicate(timeout=within)[0]

        hearing = [threading.Thread(target=hear, args=(i,)) for i in range(len(said))]
        for one in hearing:
            one.start()
        for one in hearing:
            one.join(within + 5)
        return said, [host.poll() for host in self.running]

    def close(self):
        for host in self.running:
            host.kill()
            host.wait()
            host.stdout.close()


@pytest.fixture
def hosts(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAIN))
    found = Hosts(script)
    yield found
    found.close()


def left_behind():
    """The processes of hosts that are still there."""
    mark = f"PENSTOCK_TEST_RUN={os.getpid()}".encode()
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


def results(said):
    lines = [line.split() for text in said for line in text.splitlines() if line.startswith("GOT")]
    return {(role, int(index)): (int(count), int(total)) for _, role, index, count, total in lines}


def all_read(found):
    counts = [count for count, _ in found.values()]
    totals = [total for _, total in found.values()]
    return sum(counts) == ELEMENTS and sum(totals) == sum(range(ELEMENTS))


@pytest.mark.slow
def test_a_cluster_of_five_processes_described_by_tf_config(hosts):
    cluster = {
        "chief": ["127.0.0.1:1"],
        "worker": ["127.0.0.1:2", "127.0.0.1:3"],
        "ps": ["127.0.0.1:4"],
        "dispatcher": [f"127.0.0.1:{free_port()}"],
    }
    for role, index in (("dispatcher", 0), ("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)):
        task = {"type": role, "index": index}
        hosts.start({"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})
    dispatcher, *others = hosts.running
    codes = [host.wait(60) for host in others]
    dispatcher.send_signal(signal.SIGTERM)
    said, _ = hosts.ended()

    found = results(said)
    assert codes == [0, 0, 0, 0], said
    assert dispatcher.returncode == 0
    assert set(found) == {("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)}
    assert all_read(found), said
    assert left_behind() == []


RANKS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", RANKS)
def test_two_processes_of_a_launcher_share_what_the_first_one_starts(hosts, launcher):
    where = {
        "torchrun": {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
        "slurm": {"SLURM_JOB_NODELIST": "localhost", "SLURM_TASKS_PER_NODE": "2"},
        "mpi": {"PENSTOCK_TARGET": f"127.0.0.1:{free_port()}"},  # it tells no addresses
    }[launcher]
    ranked, sized, local = RANKS[launcher]
    for rank in map(str, range(2)):
        hosts.start({ranked: rank, sized: "2", local: rank, **where})
    said, codes = hosts.ended()

    found = results(said)
    assert codes == [0, 0], said
    assert set(found) == {("chief", 0), ("worker", 0)}
    assert all_read(found), said
    assert left_behind() == []


def test_the_exit_code_is_the_scripts_and_nothing_is_left_behind(hosts):
    hosts.script.write_text("import sys; sys.exit(7)")
    hosts.start({})

    said, codes = hosts.ended()

    assert codes == [7], said
    assert left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_passed_on_to_the_script(hosts, number):
    hosts.script.write_text(
        textwrap.dedent(
            """
            import signal, sys, threading
            got = threading.Event()
            for number in (signal.SIGTERM, signal.SIGUSR1):
                signal.signal(number, lambda came, _: (print("CAME", came), got.set()))
            print("READY", flush=True)
            got.wait(60)
            sys.exit(5)
            """
        )
    )
    host = hosts.start({}, "--data-workers", "0")
    heard = iter(host.stdout.readline, "")
    assert any("READY" in line for line in heard)

    host.send_signal(number)
    said, codes = hosts.ended()

    assert codes == [5]
    assert f"CAME {int(number)}" in said[0]
    assert left_behind() == []


@pytest.mark.slow
def test_data_workers_of_a_host_that_leaves_hand_their_tasks_over_at_once(hosts):
    hosts.script.write_text(
        textwrap.dedent(
            """
            import signal, threading
            gone = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: None)  # it saves for as long as it takes
            signal.signal(signal.SIGUSR2, lambda *_: gone.set())
            print("READY", flush=True)
            gone.wait(60)
            """
        )
    )
    target = {"PENSTOCK_TARGET": f"127.0.0.1:{free_port()}"}
    ranks = [{"PMI_RANK": str(rank), "PMI_SIZE": "2", **target} for rank in range(2)]
    first, second = (hosts.start(ranks[rank]) for rank in range(2))
    for host in (first, second):
        assert any("READY" in line for line in iter(host.stdout.readline, ""))
    within = time.monotonic() + 60
    while len(look(target["PENSTOCK_TARGET"]).stats.workers) < 2:
        assert time.monotonic() < within
        time.sleep(0.05)

    second.send_signal(signal.SIGTERM)

    heard = []
    for words in ("hand their tasks over", "has left, as it was told to"):
        for line in iter(second.stdout.readline, ""):
            heard.append(line)
            if words in line:
                break
        else:
            pytest.fail("".join(heard))
    assert second.poll() is None  # the script goes on
    for host in (second, first):
        host.send_signal(signal.SIGUSR2)
    _, codes = hosts.ended()
    assert codes == [0, 0]
    assert left_behind() == []


@pytest.mark.slow
def test_what_is_killed_takes_all_with_it(hosts):
    hosts.script.write_text("import time; print('READY', flush=True); time.sleep(600)")
    host = hosts.start({})
    assert any("READY" in line for line in iter(host.stdout.readline, ""))

    host.kill()
    host.wait()

    deadline = time.monotonic() + 30
    while left := left_behind():
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TF_CONFIG": "{"}, "TF_CONFIG is not JSON"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "set PENSTOCK_TARGET"),
    ],
)
def test_what_is_malformed_is_said_before_anything_starts(monkeypatch, variables, said):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError, match=said):
        run(["train.py"], None, None)


def test_a_host_that_trains_needs_a_script(monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigError, match="there is no script to run"):
        run([], None, None)


@pytest.mark.slow
def test_a_script_that_fails_before_the_dispatcher_came_ends_at_once(hosts):
    hosts.script.write_text("import sys; sys.exit(4)")
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}
    task = {"type": "worker", "index": 0}
    began = time.monotonic()
    hosts.start({"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})

    said, codes = hosts.ended()

    assert codes == [4], said
    assert time.monotonic() - began < 60
    assert left_behind() == []


def test_a_data_worker_has_the_settings_that_variables_give(monkeypatch):
    monkeypatch.setenv("PENSTOCK_BUFFER_BYTES", "1048576")
    monkeypatch.setenv("PENSTOCK_PORT", "7007")
    plan = LaunchPlan("127.0.0.1:7000", "127.0.0.1", "127.0.0.1", False, 1, True)

    env = _worker(plan, 0)._env

    assert env["PENSTOCK_BUFFER_BYTES"] == "1048576"
    assert env["PENSTOCK_PORT"] == "0"
    assert env["PENSTOCK_DISPATCHER_ADDRESS"] == "127.0.0.1:7000"


SERVE = """
    import threading
    import penstock
    from penstock import Dataset

    place = penstock.cluster_environment()
    numbers = Dataset.range(2000).distribute("distributed_epoch", "env", "train")
    if place.role.value == "chief":
        print("GOT chief 0", len(list(numbers)), flush=True)
    else:
        reading = iter(Dataset.range(10**6).distribute("distributed_epoch", "env", "served"))
        next(reading)  # it stays open as long as this server lives
        print("SERVES", place.role.value, flush=True)
        threading.Event().wait()
"""


@pytest.mark.slow
def test_a_job_with_parameter_servers_ends_on_all_hosts_when_its_chief_has_ended(hosts, tmp_path):
    hosts.script = tmp_path / "serve.py"
    hosts.script.write_text(textwrap.dedent(SERVE))
    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "ps": ["127.0.0.1:4"]}
    target = {"PENSTOCK_TARGET": f"127.0.0.1:{free_port()}"}
    for role in ("worker", "ps", "chief"):
        task = {"type": role, "index": 0}
        hosts.start({"TF_CONFIG": json.dumps({"cluster": cluster, "task": task}), **target})

    said, codes = hosts.ended(within=100)

    assert codes == [0, 0, 0], said
    assert "GOT chief 0 2000" in said[2]
    assert all("the job is over: the script is told to end" in text for text in said[:2])
    assert left_behind() == []
