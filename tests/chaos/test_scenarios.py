"""What a mesh of real processes must survive, one story a test; `make chaos` draws its own."""

import pytest

from chaos.plan import (
    DYNAMIC,
    LEASE,
    OFF,
    Between,
    Cached,
    Fault,
    Kind,
    Life,
    Ordered,
    Plan,
    Rounds,
    Saved,
    Whose,
)
from chaos.proxy import Flow
from chaos.run import run
from chaos.weights import PIPELINE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

PAST_A_WORKERS_LEASE = LEASE / 3 + 1.0


@pytest.fixture
def play(clusters, tmp_path):
    """Play lives, and assert that every fault was done and nothing was wrong."""
    clusters.close()

    def play(*lives, **kwargs):
        plan = Plan(0, lives, delay=0.002, pace=0.0, **kwargs)
        outcome = run(plan, tmp_path / "run")

        assert outcome.problems == []
        assert outcome.faults.total() == sum(len(life.faults) for life in lives)
        return outcome

    return play


def test_a_worker_is_killed_in_mid_pass(play):
    killed = Fault(0.3, Kind.KILL_WORKER)

    play(Life(2, 2, (killed,)), mode=DYNAMIC, pipeline="shuffle-batch", elements=1400)


def test_the_dispatcher_is_killed_in_mid_pass_and_begins_again(play):
    killed = Fault(0.3, Kind.KILL_DISPATCHER, lasts=0.2)

    outcome = play(Life(2, 2, (killed,)), mode=DYNAMIC, pipeline="shuffle", elements=1200)

    assert outcome.redelivered == 0


def test_a_reader_is_killed_and_another_takes_its_place(play):
    killed = Fault(0.3, Kind.KILL_READER, lasts=0.0)

    play(Life(2, 2, (killed,)), mode=DYNAMIC, pipeline="interleave", local="batch", elements=1200)


def test_a_worker_stands_still_past_its_lease_and_goes_on(play):
    stopped = Fault(0.3, Kind.STOP_WORKER, lasts=PAST_A_WORKERS_LEASE)

    play(Life(2, 1, (stopped,)), mode=OFF, pipeline="shuffle", elements=600)


def test_a_worker_is_cut_off_from_the_dispatcher_only(play):
    cut = Fault(
        0.2,
        Kind.FLOW,
        lasts=PAST_A_WORKERS_LEASE,
        between=Between.WORKER_DISPATCHER,
        flow=Flow.HOLD,
    )

    play(Life(2, 2, (cut,)), mode=DYNAMIC, pipeline="batch", local="prefetch", elements=1400)


def test_a_worker_is_told_to_leave_in_mid_pass_and_a_runner_was_refused_memory(play):
    greedy, told = Fault(0.1, Kind.GREEDY), Fault(0.3, Kind.DRAIN_WORKER)

    outcome = play(Life(2, 1, (greedy, told)), mode=OFF, pipeline="shuffle-batch", elements=700)

    assert outcome.redelivered == 0


def test_everything_is_killed_and_another_cluster_goes_on_from_a_saved_state(play):
    saved = Fault(0.3, Kind.SAVE)
    first, second = Life(2, 2, (saved,), until=0.5), Life(1, 1, fresh=True)

    play(first, second, mode=DYNAMIC, pipeline="shuffle-batch", local="shuffle", elements=1400)


def test_all_consumers_are_killed_with_a_worker_and_go_on_at_a_round_they_agree_on(play):
    killed = [Fault(0.3, Kind.KILL_READER, lasts=0.0) for _ in range(2)]
    faults = (Fault(0.2, Kind.KILL_WORKER), *killed)

    outcome = play(
        Life(2, 2, faults), mode=DYNAMIC, pipeline="groups", elements=800, sharing=Rounds(2)
    )

    assert outcome.redelivered <= outcome.logged // 4


def test_weights_change_and_the_dispatcher_and_a_worker_are_killed_before_they_are_used(play):
    changes = [Fault(at, Kind.SET_WEIGHTS, which) for which, at in enumerate((0.1, 0.3, 0.5))]
    killed = [Fault(0.1, Kind.KILL_DISPATCHER, lasts=0.2), Fault(0.3, Kind.KILL_WORKER, lasts=0.2)]
    faults = sorted((*changes, *killed), key=lambda fault: fault.at)

    outcome = play(
        Life(2, 2, tuple(faults)),
        mode=DYNAMIC,
        pipeline=PIPELINE,
        elements=3000,
        sharing=Ordered(2),
    )

    assert outcome.changes > 0


def test_a_trainer_is_killed_with_a_worker_and_comes_back_under_its_name(play):
    faults = (Fault(0.2, Kind.KILL_READER, 1, lasts=0.0), Fault(0.4, Kind.KILL_WORKER))

    play(
        Life(2, 2, faults),
        mode=DYNAMIC,
        pipeline="range",
        elements=500,
        sharing=Cached((1, 1), "wait"),
    )


@pytest.mark.parametrize("remote", [False, True])
def test_savers_and_runners_die_at_writes_and_what_they_saved_is_read_meanwhile(play, remote):
    faults = (
        Fault(0.1, Kind.DIE_AT_WRITE, 3, whose=Whose.READER),
        Fault(0.3, Kind.STORE, 0, lasts=0.5),
        Fault(0.5, Kind.DIE_AT_WRITE, 1, whose=Whose.WORKER),
        Fault(0.7, Kind.KILL_DISPATCHER, lasts=0.2),
    )

    play(Life(2, 2, faults), mode=DYNAMIC, elements=4000, sharing=Saved(remote=remote))
