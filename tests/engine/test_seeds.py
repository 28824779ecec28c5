from penstock.engine import seeds


def test_derived_seeds_are_the_same_on_every_machine():
    assert seeds.derive(7, "task", 3) == 7446281090758246516
    assert seeds.derive(1, "a", "b") != seeds.derive(1, "ab")
    assert seeds.derive(1, 2) == seeds.derive(1, "2")


def test_fresh_seeds_fit_json_everywhere():
    assert all(0 <= seeds.fresh() < 2**63 for _ in range(100))
