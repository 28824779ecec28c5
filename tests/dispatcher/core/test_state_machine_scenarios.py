from pathlib import Path

import pytest

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.quick(16)
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path, play):
    assert play(path.read_text()) == path.read_text()
