"""What a scrape says of workers: an alert sees one that died, until it is back or forgotten."""

from penstock.protocol.control import WorkerHeartbeat
from penstock.protocol.measures import LARGEST, MADE, MEAN, PADDING, POSITIONS, Measure
from penstock_dispatcher.core.counting import LOST
from penstock_dispatcher.web.metrics import of_operators, worker_states
from penstock_dispatcher.web.sampler import MOST_OPERATORS, Sampler
from tests.dispatcher.core.test_account import Life


def states(life):
    return dict(+worker_states(life.core, life.now))


def test_a_worker_that_was_killed_is_disconnected_also_when_it_is_removed_at_once():
    life = Life()
    life.comes("w2")
    life.dies("w1")
    assert "w1" not in life.core.state.workers
    assert states(life) == {"live": 1, "disconnected": 1}


def test_a_worker_that_is_stopped_is_silent_and_after_its_lease_disconnected():
    life = Life()
    life.comes("w2")
    life.pass_time(4.0, "w2")
    assert states(life) == {"live": 1, "silent": 1}
    life.pass_time(10.0, "w2")
    assert states(life) == {"live": 1, "disconnected": 1}


def test_a_worker_that_comes_back_is_live():
    life = Life()
    life.dies("w1")
    life.comes("w1")
    assert states(life) == {"live": 1}


def test_a_worker_that_drained_is_not_missed():
    life = Life()
    life.comes("w2")
    life.tell(WorkerHeartbeat("w1", 1, 0, draining=True))
    assert states(life) == {"live": 1, "draining": 1}
    life.dies("w1")
    assert states(life) == {"live": 1}


def test_a_worker_whose_place_another_took_is_forgotten():
    life = Life()
    life.comes("w2")
    life.dies("w1")
    life.now += LOST - 1.0
    assert states(life)["disconnected"] == 1
    life.now += 2.0
    assert states(life) == {"live": 1}


def measured(operator, name, unit, number):
    return Measure("", operator, name, unit, number)


def samples(life):
    sampler = Sampler(life.core, lambda: life.now)
    sampler.look()
    found = of_operators(sampler.totals.by_job())
    return {(s.name, *s.labels.values()): s.value for metric in found for s in metric.samples}


def test_what_operators_counted_is_summed_up_by_job_with_the_ratios():
    life = Life()
    measures = (
        measured("pack", MADE, "tokens", 900),
        measured("pack", POSITIONS, "positions", 1000),
        measured("pack", PADDING, "positions", 100),
        measured("balance", LARGEST, "cost", 30.0),
        measured("balance", MEAN, "cost", 24.0),
    )
    life.works("w1", 5, 0, measures=measures)
    job = life.stats.job

    found = samples(life)

    assert found["penstock_operator_made_total", job, "pack", "tokens"] == 900
    assert found["penstock_operator_positions_total", job, "pack", "positions"] == 1000
    assert found["penstock_operator_padding_total", job, "pack", "positions"] == 100
    assert found["penstock_operator_largest_cost_total", job, "balance", "cost"] == 30
    assert found["penstock_padding_ratio", job, "pack"] == 0.1
    assert found["penstock_imbalance_ratio", job, "balance"] == 1.25


def test_operators_beyond_the_first_have_no_series():
    life = Life()
    many = [measured(f"pack({i})", MADE, "tokens", 1) for i in range(2 * MOST_OPERATORS)]
    life.works("w1", 5, 0, measures=tuple(many))

    assert len(samples(life)) == MOST_OPERATORS
