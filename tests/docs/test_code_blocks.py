"""Every page is true because its blocks run; `pages` says which, and how."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, FRAMEWORKS, PAGES, ROOT, STANDALONE, UP_LOG, blocks, name, script
from tests.free_ports import free_ports

pytestmark = pytest.mark.usefixtures("indexes_apart")

HERE = Path(__file__).parent
KINDS = {"python", "console", "text", "sh", "json", "yaml", "toml", ""}
TARGET = "localhost:7000"


def params(*, clusters):
    """What runs, as parameters, on *clusters* or alone: those that share a cluster first."""
    found = []
    for page in PAGES:
        given = blocks(page)
        if page in STANDALONE:
            found += [(page, [block]) for block in given if block.kind == "python"]
        elif FRAMEWORKS in page.parents:
            continue
        elif any(block.kind in {"python", "console"} for block in given):
            found.append((page, given))
    found.sort(key=lambda one: TARGET not in one[0].read_text())
    return [
        pytest.param(*one, id=f"{name(one[0])}:{one[1][0].line}")
        for one in found
        if starts_cluster(one[1]) == clusters
    ]


def starts_cluster(given):
    """Say whether blocks read from a cluster that runs beside them, or start one."""
    return any(word in block.text for block in given for word in (TARGET, "LocalCluster"))


class Mesh:
    """What `penstock up --workers 2 --port 7000 --http-port 8080` runs."""

    def __init__(self, log):
        self.log = log
        self.port = None
        self._process = None

    def start(self):
        if self._process is None:
            self.port, page = free_ports(2)
            command = [sys.executable, "-m", "penstock_cluster.cli.app", "up"]
            options = ["--workers", "2", "--port", str(self.port), "--http-port", str(page)]
            with self.log.open("w") as log:
                self._process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE)
                for line in self._process.stdout:
                    log.write(line.decode())
                    if line.startswith(b"Ctrl-C"):
                        break

    def stop(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.communicate(timeout=20)
            self._process = None


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "up.txt")
    try:
        yield mesh
    finally:
        mesh.stop()


@pytest.fixture
def run(tmp_path):
    """Runs the program of a page, with the log of the mesh that it is shown."""

    def run(text, log=""):
        program = tmp_path / "page.py"
        program.write_text(text)
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "COLUMNS": "110",
            UP_LOG: str(log),
        }
        return subprocess.run(
            [sys.executable, "-W", "error", program],
            capture_output=True,
            text=True,
            timeout=100,
            cwd=tmp_path,
            env=env,
        )

    return run


@pytest.mark.quick(1)
@pytest.mark.parametrize(("page", "given"), params(clusters=True))
def test_the_page_runs_with_a_cluster(page, given, clusters, mesh, run):
    clusters.close()
    text = script(page, given)
    if TARGET not in text or "penstock status" in text:  # that shows the jobs of other pages, too
        mesh.stop()
    if TARGET in text:
        mesh.start()
        text = text.replace(TARGET, f"localhost:{mesh.port}")

    ran = run(text, mesh.log)

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.quick(1)
@pytest.mark.parametrize(("page", "given"), params(clusters=False))
def test_the_page_runs_alone(page, given, run):
    ran = run(script(page, given))

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_of_a_known_kind_and_can_be_read(page):
    for block in blocks(page):
        assert block.kind in KINDS, f"{name(page)}:{block.line}"
        if block.kind == "python":
            compile(block.text, f"{name(page)}:{block.line}", "exec")
        elif block.kind == "json":
            json.loads(block.text)
        elif block.kind == "toml":
            tomllib.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target and not target.startswith("#"):
            assert (page.parent / target.split("#")[0]).exists(), f"{name(page)}: {target}"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_and_folders_that_are_named_are_there(page):
    tops = [path for path in ROOT.iterdir() if not path.name.startswith(".")]
    files = [path for top in tops for path in (top, *top.rglob("*")) if path.is_file()]
    files = [path.relative_to(ROOT) for path in files if path.suffix != ".pyc"]
    there = {f"/{path}" for path in files} | {f"/{up}/" for path in files for up in path.parents}
    named = re.findall(r"`([\w./-]+(?:/|\.(?:py|md|toml)))`", (ROOT / page).read_text())
    named = [one.replace("NAME", "take") for one in named]

    assert len(named) > 5
    assert not {one for one in named if not any(path.endswith(f"/{one}") for path in there)}


def test_the_navigation_names_every_page():
    said = (ROOT / "mkdocs.yml").read_text()

    missing = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
               if f" {page.relative_to(DOCS)}\n" not in said]  # fmt: skip

    assert not missing


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
