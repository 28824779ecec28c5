"""The pages of frameworks run, with the frameworks; their reference names what is public."""

import doctest
import importlib
import os
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import penstock
from penstock import Dataset
from tests.docs.pages import DOCS, FRAMEWORKS, ROOT, UP_LOG, blocks, script
from tests.docs.test_code_blocks import TARGET, Mesh
from tests.frameworks.warm import Program

PACKAGES = ["penstock.torch", "penstock.jax", "penstock.tensorflow"]
PUBLIC = [f"{name}.{each}" for name in PACKAGES for each in importlib.import_module(name).__all__]
SOURCES = [
    f"penstock.Dataset.{name}" for name in ("from_torch", "from_huggingface", "from_tf", "lance")
]
PAGES = [page for page in sorted(FRAMEWORKS.glob("*.md")) if page.stem != "reference"]
PAGES += sorted(DOCS.glob("coming-from-*.md"))


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "up.txt")
    try:
        yield mesh
    finally:
        mesh.stop()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs_with_a_cluster(page, clusters, mesh, tmp_path):
    clusters.close()
    mesh.start()
    program = tmp_path / "page.py"
    program.write_text(script(page, blocks(page)).replace(TARGET, f"localhost:{mesh.port}"))
    folders = [ROOT / "tests" / "docs", ROOT]

    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        UP_LOG: mesh.log,
    }

    Program(program, errors=tmp_path / "errors.txt", folder=tmp_path, **variables).said(110)


@pytest.mark.parametrize("path", [*PUBLIC, *SOURCES])
def test_the_example_of_what_is_public_shows_what_happens(path, tmp_path, monkeypatch):
    value = pkgutil.resolve_name(path)
    monkeypatch.chdir(tmp_path)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    (test,) = doctest.DocTestFinder(recurse=False).find(
        value, path, globs={"Dataset": Dataset, "penstock": penstock}
    )

    assert test.examples
    assert not runner.run(test, out=said.append).failed, "".join(said)


def test_the_reference_names_what_is_public():
    text = (FRAMEWORKS / "reference.md").read_text()

    assert re.findall(r"^::: (\S+)$", text, re.MULTILINE) == PUBLIC
