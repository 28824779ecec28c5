"""Where the frameworks are installed, Penstock itself loads none of them."""

import subprocess
import sys

import pytest

from penstock.extras import EXTRAS

FRAMEWORKS = {*EXTRAS, "keras"}


@pytest.mark.parametrize(
    "statement",
    [
        "from penstock import *",
        "import penstock; list(penstock.Dataset.range(3).batch(2))",
        "import penstock.loading.loader",
        "import penstock_worker.__main__, penstock_worker.runner.main",
        "import penstock_dispatcher.__main__",
        "import penstock_cluster.cli.app",
    ],
)
def test_the_core_loads_no_framework(statement):
    code = f"import sys\n{statement}\nprint(sorted({FRAMEWORKS} & set(sys.modules)))"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert ran.stdout.strip() == "[]", ran.stderr


@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_a_package_of_ours_loads_no_other_framework_than_its_own(name):
    by_itself, by_ours = loaded_by(f"import {name}"), loaded_by(f"import penstock.{name}")

    assert name in by_ours
    assert by_ours <= by_itself


def loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*({FRAMEWORKS} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.splitlines()[-1].split())
