"""Training loops need nothing that only Linux has; what does need it says so in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig

ELSEWHERE = Path(__file__).with_name("elsewhere.py")
SYSTEMS = ["darwin", "win32"]

LOCAL = """
import sys
from pathlib import Path
from penstock import AUTOTUNE, Dataset

folder = Path(sys.argv[1])
for i in range(3):
    (folder / f"{i}.txt").write_text("".join(f"{100 * i + n}\\n" for n in range(100)))
dataset = (
    Dataset.list_files(f"{folder}/*.txt", shuffle=True)
    .interleave(Dataset.text_lines, num_parallel_calls=2)
    .map(int, num_parallel_calls=AUTOTUNE)
    .cache(f"{folder}/cached")
    .shuffle(50)
    .batch(7)
    .prefetch(AUTOTUNE)
)

for _ in range(2):  # the second pass reads the cache's file
    assert sorted(int(x) for batch in dataset for x in batch) == list(range(300))
    assert sorted(file.name for file in folder.iterdir()) == ["0.txt", "1.txt", "2.txt", "cached"]
    with dataset.iterator() as batches:
        before = [next(batches) for _ in range(10)]
        state = batches.state()
    with dataset.iterator(state) as batches:
        got = [*before, *batches]
    assert sorted(int(x) for batch in got for x in batch) == list(range(300))
"""

MESH = """
import sys
from penstock import Dataset

dataset = Dataset.range(500).map(lambda i: i + 1, num_parallel_calls=2).shuffle(50).batch(8)
far = dataset.distribute("distributed_epoch", sys.argv[1]).prefetch(2)

with far.iterator() as batches:
    before = [next(batches) for _ in range(10)]
    state = batches.state()
with far.iterator(state) as batches:
    got = [*before, *batches]
assert sorted(int(x) for batch in got for x in batch) == list(range(1, 501))
"""

PROCESSES = """
from penstock import Dataset
from penstock.errors import ConfigError

try:
    list(Dataset.range(3).map(abs, executor="process"))
except ConfigError as error:
    print(error)
"""

CLUSTER = """
from penstock.errors import ConfigError
from penstock_cluster import DispatchServer, LocalCluster, WorkerConfig, WorkerServer

for start in (
    LocalCluster().start,
    DispatchServer,
    lambda: WorkerServer(WorkerConfig(dispatcher_address="localhost:1")),
):
    try:
        start()
    except ConfigError as error:
        print(error)
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program, or a module, as on another system."""

    def run(system, program, *args):
        file = tmp_path / "program.py"
        if program.startswith("penstock"):
            program = f"import runpy\nrunpy.run_module({program!r}, run_name='__main__')"
        file.write_text(program)
        command = [sys.executable, "-W", "error", ELSEWHERE, system, file, *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_local_pipeline_runs_is_saved_and_goes_on(run, tmp_path, system):
    folder = tmp_path / "data"
    folder.mkdir()

    ran = run(system, LOCAL, folder)

    assert ran.returncode == 0, ran.stderr


@pytest.fixture(scope="module")
def insecure(clusters):
    """A cluster that lets in everybody, as one on another machine would without credentials."""
    configs = {
        "dispatcher": DispatcherConfig(insecure=True),
        "worker": WorkerConfig(insecure=True),
    }
    with clusters.own(workers=2, **configs) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_mesh_on_linux_is_read_saved_and_shown(insecure, run, system):
    cluster = insecure
    ran = run(system, MESH, cluster.target)
    shown = run(system, "penstock_cluster.cli.app", "status", cluster.target)

    assert ran.returncode == 0, ran.stderr
    assert shown.returncode == 0, shown.stderr
    assert cluster.workers[0].address in shown.stdout


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_processes_of_a_map_say_that_they_need_linux(run, system):
    ran = run(system, PROCESSES)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == (
        f'executor="process" needs Linux, and this is {system}: use executor="thread", or have '
        "workers run the pipeline\n"
    )


REMEDY = "run it on a Linux machine or in a container; pipelines are built and read anywhere\n"


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_cluster_and_servers_in_a_process_say_that_they_need_linux(run, system):
    ran = run(system, CLUSTER)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "".join(
        f"a {what} needs Linux, and this is {system}: {REMEDY}"
        for what in ("cluster", "dispatcher", "worker")
    )


@pytest.mark.quick(1)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("what", ["dispatcher", "worker"])
def test_the_process_of_a_service_ends_with_one_sentence(run, system, what):
    given = ["--dispatcher-address", "localhost:1"] if what == "worker" else ["--port", "0"]

    ran = run(system, f"penstock_{what}", *given)

    assert ran.returncode == 2
    sentence = f"a {what} needs Linux, and this is {system}: {REMEDY.rstrip()}"
    assert ran.stderr == f"penstock_{what}: {sentence} (see `penstock errors ConfigError`)\n"


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_the_system_lacks_is_not_there_for_penstock(run, tmp_path, system):
    """The other tests would pass if the pretence did nothing."""
    (tmp_path / "penstock_probe.py").write_text(
        "import os, select, sys\n"
        "found = [sys.platform, hasattr(os, 'memfd_create'), hasattr(select, 'epoll')]\n"
        "try:\n    import uvloop\nexcept ImportError:\n    found.append('no uvloop')\n"
        "try:\n    open('/proc/self/stat')\nexcept OSError:\n    found.append('no proc')\n"
        "print(*found, hasattr(os, 'getpid'))\n"
    )

    ran = run(system, f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import penstock_probe")

    assert ran.stdout == f"{system} False False no uvloop no proc True\n", ran.stderr
