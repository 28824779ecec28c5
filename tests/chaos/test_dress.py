"""What plans have on top follows from their seeds, and can be asked for."""

from collections import Counter

from chaos.draws import draw
from chaos.dress import LIMITED, Dress
from chaos.plan import Kind

SEEDS = range(200)


def test_seeds_give_transports_tls_and_slots():
    plans = [Dress().on(draw("plain", seed), "plain") for seed in SEEDS]

    assert plans == [Dress().on(draw("plain", seed), "plain") for seed in SEEDS]
    assert {plan.transport for plan in plans} == {"grpc", "shm"}
    assert {plan.secured for plan in plans} == {True, False}
    assert {plan.slots for plan in plans} == {None, 1, 2, 4}


def test_what_is_asked_for_is_what_a_plan_has():
    asked = Dress("shm", secured=True, slots=3)
    plans = [asked.on(draw("cache", seed), "cache") for seed in SEEDS]

    assert {(plan.transport, plan.secured, plan.slots) for plan in plans} == {("shm", True, 3)}


def test_a_dense_plan_has_so_many_times_the_faults_and_no_more_of_the_limited_ones():
    for kind in ("plain", "rounds", "cache", "ordered"):
        for seed in SEEDS:
            drawn = draw(kind, seed)
            dense = Dress(density=4).on(drawn, kind)
            for life, denser in zip(drawn.lives, dense.lives, strict=True):
                assert len(denser.faults) == 4 * len(life.faults)
                assert limited(denser) == limited(life)
                assert list(denser.faults) == sorted(denser.faults, key=lambda fault: fault.at)
            assert dense.patience < drawn.patience


def test_what_is_saved_once_stays_saved_where_it_was():
    for seed in SEEDS:
        drawn, dense = draw("plain", seed), Dress(density=4).on(draw("plain", seed), "plain")
        for life, denser in zip(drawn.lives, dense.lives, strict=True):
            saves = [fault for fault in life.faults if fault.kind is Kind.SAVE]
            assert [fault for fault in denser.faults if fault.kind is Kind.SAVE] == saves


def limited(life):
    return Counter(fault.kind for fault in life.faults if fault.kind in LIMITED)
