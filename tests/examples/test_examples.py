"""Each program of examples/ does what its first lines say, as a process of its own."""

import ast
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.docs.pages import ROOT

pytestmark = pytest.mark.usefixtures("indexes_apart")

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PYTHON = [sys.executable, "-W", "error"]


PUBLIC = {
    *("penstock", "penstock.errors", "penstock.service", "penstock_cluster"),
    *("penstock.jax", "penstock.tensorflow", "penstock.torch"),
}


CLUSTERS = {"tensorflow_multi_device", "tensorflow_parameter_server"}
"""Each is the program of all roles of a cluster."""

MOST_LINES = {"llm_pretraining": 120, **dict.fromkeys(CLUSTERS, 320)}


def start(name, *args, **kwargs):
    command = [*PYTHON, ROOT / "examples" / f"{name}.py", *map(str, args)]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True, **kwargs)


def finish(process):
    """Wait for *process*; return the lines that it printed."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.splitlines()


def run(name, *args):
    return finish(start(name, *args))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_short_and_says_what_it_shows_and_how_to_run_it(file):
    text = file.read_text()
    said = ast.get_docstring(ast.parse(text))

    assert 40 <= len(text.splitlines()) <= MOST_LINES.get(file.stem, 90)
    assert f"python examples/{file.name}" in said
    assert re.search(rf"^\| \[{file.name}\]\({file.name}\) \| \w", readme(), re.MULTILINE)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_imports_public_names_only(file):
    imports = [
        node.module for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("penstock")
    ]  # fmt: skip

    assert imports
    assert set(imports) <= PUBLIC


def test_the_list_of_examples_names_no_others():
    listed = re.findall(r"^\| \[(.*?)\]", readme(), re.MULTILINE)

    assert sorted(listed) == [file.name for file in EXAMPLES]


def readme():
    return (ROOT / "examples" / "README.md").read_text()


@pytest.mark.slow
def test_a_local_pipeline_reads_all_examples_in_each_epoch(tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "", "label": 0}\n')

    assert run("local_pipeline") == [
        "epoch 0: 800 examples, 400 of them positive",
        "epoch 1: 800 examples, 400 of them positive",
    ]
    assert run("local_pipeline", tmp_path / "*.jsonl") == [
        "epoch 0: 2 examples, 1 of them positive",
        "epoch 1: 2 examples, 1 of them positive",
    ]


def test_a_mesh_of_this_machine_gives_each_sample_once(clusters):
    clusters.close()

    assert run("two_hosts") == ["100 steps, 2000 different samples, their sum is 1999000"]


@pytest.fixture
def hosts(clusters, tmp_path):
    """The commands that two_hosts.py shows, with this machine in the place of each host."""
    clusters.close()
    text = (ROOT / "examples" / "two_hosts.py").read_text()
    commands = re.findall(r"^ +[a-d]\$ (.*)$", text, re.MULTILINE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    here = [
        re.sub(r"\b[a-c]:", "127.0.0.1:", command).replace("7000", str(port))
        for command in commands
    ]
    started = []
    folder = Path(sys.executable).parent
    for command in here[:-1]:
        program, *args = shlex.split(command)
        process = subprocess.Popen([folder / program, *args], cwd=tmp_path, stdout=-1, text=True)
        started.append(process)
    yield started, here[-1]  # workers wait for their dispatcher, and readers for workers
    for process in reversed(started):
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.slow
def test_the_commands_for_several_hosts_make_a_mesh_that_readers_share(hosts):
    (dispatcher, *workers), command = hosts
    program, *args = shlex.split(command)
    assert program == "python"
    assert args[0] == "examples/two_hosts.py"

    readers = [start("two_hosts", *args[1:], "--job-name", "run 1") for _ in range(2)]
    shared = [finish(reader) for reader in readers]

    assert dispatcher.stdout.readline().startswith("listening on grpc://")
    assert all(" registered with " in worker.stdout.readline() for worker in workers)
    sums = [list(map(int, re.findall(r"\d+", line))) for (line,) in shared]
    assert [sum(column) for column in zip(*sums)] == [100, 2000, 1999000]


def killed_and_begun_again(*args):
    """Run resume.py; kill it behind its third save, twice, and then let it end."""
    for life in range(2):
        process = start("resume", *args)
        lines = [process.stdout.readline() for _ in range(3 + life)]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert lines[-1].startswith("saved at step ")
        assert lines[0].startswith("going on from step ") == bool(life)
    return run("resume", *args)


@pytest.mark.slow
def test_a_killed_loop_goes_on_and_sees_each_sample_once(tmp_path):
    lines = killed_and_begun_again(tmp_path / "checkpoint.json")

    assert lines[-1] == "600 steps; samples were seen [1] time(s)"
    assert lines[0].startswith("going on from step ")


@pytest.mark.slow
def test_a_killed_loop_that_reads_from_a_mesh_goes_on_and_sees_each_sample_once(clusters, tmp_path):
    with clusters.own(workers=2) as cluster:
        lines = killed_and_begun_again(tmp_path / "checkpoint.json", cluster.target)

    assert lines[-1] == "600 steps; samples were seen [1] time(s)"


@pytest.mark.slow
def test_sources_of_ones_own_give_all_their_elements_here_and_on_a_mesh(cluster):
    all_of_them = ["500 rows, 500 of them different", "200 entries, 200 of them different"]

    assert run("own_source") == all_of_them
    assert run("own_source", cluster.target) == all_of_them


@pytest.mark.slow
def test_images_are_read_with_their_classes_and_what_is_none_is_left_out(cluster, tmp_path):
    photos = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for kind, count, size in (("cats", 5, (30, 80)), ("dogs", 20, (64, 64))):
        (photos / kind).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 255, (*size, 3), np.uint8)
            Image.fromarray(pixels).save(photos / kind / f"{i}.{'png' if i % 2 else 'jpg'}")
    (photos / "cats" / "notes.txt").write_text("none of these is fluffy")

    assert run("images", photos) == ["5 of cats, 20 of dogs"]
    assert run("images", photos, cluster.target) == ["5 of cats, 20 of dogs"]
    skipped = [file.read_text() for file in (tmp_path / "photos.skipped").rglob("*.json*")]
    assert len(skipped) == 2
    assert all("UnidentifiedImageError" in text for text in skipped)


@pytest.mark.slow
def test_images_of_tar_shards_are_trained_on_once_each_through_a_stop(clusters):
    clusters.close()

    stopped, ended = run("webdataset_images")

    assert stopped.startswith("stopped after 48 images; the state has ")
    assert ended == f"200 images: {dict.fromkeys(range(10), 20)} by class"


@pytest.mark.slow
def test_a_model_learns_from_a_parquet_table_through_a_stop(clusters):
    clusters.close()

    stopped, ended = run("parquet_table")

    assert 7200 < int(stopped.removeprefix("stopped after ").removesuffix(" rows")) <= 9200
    assert ended == "21600 rows; hours = 20.0 distance + 5.0 weight + 2.0"


@pytest.mark.slow
def test_mixed_and_packed_corpora_come_in_one_order_through_a_change_of_weights_and_a_crash(
    clusters,
):
    clusters.close()

    changed, compared = run("llm_pretraining")

    assert re.fullmatch(r"the weights changed at turn \d+", changed)
    assert compared == "1200 packs, the same through the crash: True"


@pytest.mark.slow
def test_a_dataset_is_trained_on_while_workers_save_it_and_one_is_killed(clusters):
    clusters.close()
    killed, first, second = run("save_and_train")

    assert re.fullmatch(r"a worker was killed after [\d,]+ lines", killed)
    said = re.fullmatch(r"epoch 1: ([\d,]+) lines, ([\d,]+) tokens, while they were written", first)
    assert second == f"epoch 2: {said[1]} lines, {said[2]} tokens, shuffled"


@pytest.mark.slow
def test_texts_of_json_lines_are_packed_into_all_rows_that_they_fill_through_a_stop(clusters):
    clusters.close()
    made = sum(
        len(f"This is text {i} of file {number}. ") * (1 + i % 7) + 1
        for number in range(6)
        for i in range(100)
    )

    stopped, ended = run("jsonl_text")

    assert stopped.startswith("stopped after 80 rows; the state has ")
    rows = int(ended.removesuffix(" rows of 128 tokens"))
    assert made // 128 - 1 <= rows <= made // 128  # each of the two workers leaves a last row out
