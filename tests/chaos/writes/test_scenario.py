"""A real dispatcher is killed at some of its writes; ``python -m chaos.writes`` takes all."""

import pytest

from chaos.writes.preload import How, Order, compiled
from chaos.writes.scenario import Kill, differences, left_in, play
from chaos.writes.supervised import Warm
from penstock_dispatcher.journal.store import Store


@pytest.fixture(scope="module")
def killing(tmp_path_factory):
    top = tmp_path_factory.mktemp("writes")
    library = compiled(top)
    if library is None:
        pytest.skip("there is no C compiler here (cc)")
    with Order(library, top / "order", top / "work") as order, Warm(order) as warm:
        yield lambda kill, folder: play(warm, order, kill, top / "work", folder)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kill",
    [Kill(9, How.BEFORE, again=5), Kill(70, How.TORN, again=11), Kill(150, How.AFTER, again=7)],
    ids=str,
)
def test_a_dispatcher_killed_while_it_writes_loses_nothing_and_repeats_nothing(
    killing, kill, tmp_path
):
    played = killing(kill, tmp_path / "run")

    assert played.problems == []
    assert played.kills == 2
    assert played.hit is not None


def test_what_is_lost_and_what_came_again_is_told():
    assert list(differences("job", [0, 2, 1], [0, 1, 2])) == []
    assert list(differences("job", [0, 2, 2], [0, 1, 2])) == [
        "job: [1] are lost",
        "job: [2] came again",
    ]


def test_what_is_left_in_a_folder_is_told(tmp_path):
    with Store(tmp_path / "journal.db", power=False):
        pass
    for name in ("datasets", "listings"):
        (tmp_path / name).mkdir()
    (tmp_path / "datasets" / ".unfinished").touch()
    (tmp_path / "journal.db-wal").touch()

    told = left_in(tmp_path)

    assert "journal.db-wal" in told[0]
    assert told[1:] == ["datasets holds ['.unfinished']", "the journal is empty"]
