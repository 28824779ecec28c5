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
def test_a_package_of_ours_loads_its_own_framework_only(name):
    code = f"import sys, penstock.{name}\nprint(sorted({FRAMEWORKS} & set(sys.modules)))"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    loaded = set(eval(ran.stdout))

    assert name in loaded, ran.stderr
    assert not loaded & ({"torch", "jax", "tensorflow"} - {name})
