"""Options: what is refused, and which of two hold."""

import numpy as np
import pytest

from penstock.errors import DatasetError
from penstock.options import (
    AUTOTUNE,
    AutocacheOptions,
    AutotuneOptions,
    Options,
    check_count,
    check_count_or_auto,
)


@pytest.mark.parametrize("value", [1, np.int64(1), 2**63 - 1])
def test_a_count_is_an_integer(value):
    assert check_count("batch", "batch_size", value) == int(value)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None])
def test_what_is_no_count_is_refused_by_its_name(value):
    with pytest.raises(DatasetError, match="batch: batch_size must be an integer of at least 1"):
        check_count("batch", "batch_size", value)


def test_a_count_that_no_int64_holds_is_refused_and_not_spelt_out():
    with pytest.raises(DatasetError, match="a number of 10001 bits"):
        check_count("take", "count", 1 << 10_000)


def test_autotune_stands_for_a_count():
    assert check_count_or_auto("map", "num_parallel_calls", AUTOTUNE) == AUTOTUNE
    assert check_count_or_auto("map", "num_parallel_calls", 3) == 3
    with pytest.raises(DatasetError):
        check_count_or_auto("map", "num_parallel_calls", -2)


def test_later_options_hold_and_say_nothing_of_what_they_leave():
    earlier = Options(threads=2, deterministic=False, autotune=AutotuneOptions(cpu_budget=4))
    later = Options(deterministic=True, autotune=AutotuneOptions(enabled=False))

    both = later.under(earlier)

    assert both == Options(
        threads=2, deterministic=True, autotune=AutotuneOptions(enabled=False, cpu_budget=4)
    )


@pytest.mark.parametrize(
    "given",
    [
        {"deterministic": 1},
        {"threads": 0},
        {"autotune": True},
        {"autocache": "folder"},
        {"external_state_policy": "shout"},
    ],
    ids=str,
)
def test_a_nonsensical_option_is_named(given):
    with pytest.raises(DatasetError, match=f"options: {next(iter(given))}"):
        Options(**given)


@pytest.mark.parametrize(
    "given", [{"path": ""}, {"path": 3}, {"path": b"x"}, {"max_bytes": 0}, {"passes": 0.5}], ids=str
)
def test_a_nonsensical_option_of_autocache_is_named(given):
    with pytest.raises(DatasetError, match=f"options: autocache.{next(iter(given))}"):
        AutocacheOptions(**given)


def test_later_options_of_autocache_hold_and_leave_the_others(tmp_path):
    earlier = Options(autocache=AutocacheOptions(path=tmp_path, passes=3))
    later = Options(autocache=AutocacheOptions(passes=5))

    assert later.under(earlier).autocache == AutocacheOptions(path=str(tmp_path), passes=5)
