"""Plans follow from their seeds, and leave nothing out."""

from collections import Counter

from chaos.plan import LEASE, Between, Kind, random_plan
from chaos.proxy import Flow

SEEDS = range(300)


def test_a_seed_is_a_plan():
    assert [random_plan(seed) for seed in SEEDS] == [random_plan(seed) for seed in SEEDS]
    assert str(random_plan(1)) != str(random_plan(2))


def test_everything_that_can_be_done_is_done():
    plans = [random_plan(seed) for seed in SEEDS]
    faults = [fault for plan in plans for life in plan.lives for fault in life.faults]

    assert {fault.kind for fault in faults} == set(Kind) - {
        Kind.SET_WEIGHTS,
        Kind.STORE,
        Kind.DIE_AT_WRITE,
    }
    assert {fault.between for fault in faults} == set(Between)
    flows = {fault.flow for fault in faults if fault.kind is Kind.FLOW}
    assert flows == set(Flow) - {Flow.PASS}
    assert len({(plan.mode, plan.pipeline, plan.local) for plan in plans}) > 50
    assert min(Counter(len(plan.lives) for plan in plans).values()) > 10


def test_some_faults_outlast_every_lease():
    plans = [random_plan(seed) for seed in SEEDS]
    lasting = [f.lasts for plan in plans for life in plan.lives for f in life.faults if f.lasts]

    assert max(lasting) > LEASE


def test_what_is_killed_at_the_end_of_a_first_life_was_saved_before():
    for seed in SEEDS:
        for life in random_plan(seed).lives[:-1][:1]:
            saves = [fault.at for fault in life.faults if fault.kind is Kind.SAVE]
            assert min(saves) < life.until
