"""What is shipped: the wheel, the public names, what an import drags in."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import penstock
import penstock_cluster
import penstock_dispatcher
import penstock_worker
from penstock.extras import EXTRAS

ROOT = Path(__file__).parents[1]


def built(folder, out, *targets):
    """Return the bytes of what hatchling makes of *folder*, by their ending."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", out]
    command += [word for target in targets for word in ("-t", target)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return {path.suffix: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def wheel_file(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    built(ROOT, out, "wheel")
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture
def wheel(wheel_file):
    with zipfile.ZipFile(wheel_file) as archive:
        return archive.namelist()


@pytest.mark.slow
def test_whoever_builds_the_same_sources_gets_the_same_bytes(wheel_file, tmp_path):
    copy = tmp_path / "elsewhere"
    kept = shutil.ignore_patterns("__pycache__")
    for name in ("client", "services"):
        shutil.copytree(ROOT / name, copy / name, ignore=kept, copy_function=shutil.copyfile)
    (copy / "docs" / "reference").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "docs/reference/errors.md"):
        shutil.copyfile(ROOT / name, copy / name)

    first = built(copy, tmp_path / "first", "sdist", "wheel")
    for path in copy.rglob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(0o600)
    again = built(copy, tmp_path / "again", "sdist")

    assert first[".whl"] == wheel_file.read_bytes()
    assert first[".gz"] == again[".gz"]


def test_the_wheel_holds_the_five_packages_and_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel}

    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "penstock",
        "penstock_cluster",
        "penstock_dispatcher",
        "penstock_health",
        "penstock_worker",
    }


def test_the_wheel_holds_every_module_and_no_stray_file(wheel):
    roots = ["client", "services/dispatcher", "services/worker", "services/cluster"]
    sources = {
        str(path.relative_to(ROOT / root))
        for root in roots
        for path in (ROOT / root).rglob("*")
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed" or "assets" in path.parts
        if path.is_file()
    }
    shipped = {name for name in wheel if ".dist-info/" not in name}

    assert len(shipped) > 60
    text = {"penstock_cluster/errors.md"}  # what `penstock errors` prints
    assert shipped == {name for name in sources if "__pycache__" not in name} | text


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            penstock,
            [
                "AUTOTUNE",
                "ArraySpec",
                "AutocacheOptions",
                "AutotuneOptions",
                "Dataset",
                "DatasetSpec",
                "INFINITE",
                "Options",
                "PreemptionHandler",
                "Ragged",
                "Reference",
                "TerminationConfig",
                "cluster_environment",
                "UNKNOWN",
                "errors",
                "explain",
                "service",
            ],
        ),
        (
            penstock.service,
            [
                "SHARD_HINT",
                "CrossTrainerCache",
                "SaveJob",
                "SaveProgress",
                "ShardingPolicy",
                "distribute",
                "from_dataset_id",
                "register_dataset",
                "save",
                "distributed_save",
                "save_job",
                "set_weights",
            ],
        ),
        (penstock_dispatcher, ["DispatchServer", "DispatcherConfig"]),
        (penstock_worker, ["WorkerConfig", "WorkerServer"]),
        (
            penstock_cluster,
            [
                "DispatchServer",
                "DispatcherConfig",
                "LocalCluster",
                "Member",
                "WorkerConfig",
                "WorkerServer",
            ],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_public_names_are_these(module, names):
    assert sorted(module.__all__) == sorted(names)
    assert all(hasattr(module, name) for name in names)


@pytest.mark.parametrize("module", [penstock, penstock.service])
def test_completion_shows_the_public_names_only(module):
    assert dir(module) == sorted(module.__all__)


def test_the_special_cardinalities_are_those_of_the_field():
    assert (penstock.INFINITE, penstock.UNKNOWN) == (-1, -2)


GRPC, FRAMEWORKS = {"grpc", "google.protobuf"}, {*EXTRAS, "keras"}
LOOPS = {"asyncio", "uvloop"}
OPTIONS = {"typer", "pydantic"}
SERVICES = {"penstock_dispatcher.server", "penstock_worker.server"}
LIBRARY = {"numpy", "penstock.dataset.dataset", "penstock.ops.map"}


@pytest.mark.parametrize(
    ("statement", "without"),
    [
        ("from penstock import *", GRPC | LOOPS | FRAMEWORKS),
        ("import penstock_worker.runner.fork_child", GRPC | LOOPS | FRAMEWORKS),
        ("import penstock_worker.process", OPTIONS | LIBRARY | FRAMEWORKS),
        ("import penstock_dispatcher.process", OPTIONS | LIBRARY | FRAMEWORKS),
        ("import penstock_cluster", GRPC | LIBRARY | FRAMEWORKS),
        ("import penstock_cluster.cli.app", SERVICES | LIBRARY - {"numpy"} | FRAMEWORKS),
    ],
)
def test_what_is_imported_loads_no_more_than_it_needs(statement, without):
    code = f"import sys\n{statement}\nprint(sorted({without} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )

    assert shown.stdout.strip() == "[]"
