"""How large the cross-trainer cache can be, by what the system has."""

import logging
import resource

import pytest

from penstock_worker import memory_share as module
from penstock_worker.memory_share import buffer_size, cache_size, memory_limits


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def limits(monkeypatch):
    """What is said to limit memory and addresses, to be filled in."""
    memory, addresses = {}, {}
    monkeypatch.setattr(module, "memory_limits", lambda: memory)
    monkeypatch.setattr(module, "_address_limits", lambda: addresses)
    return memory, addresses


def test_a_cache_is_as_large_as_it_is_set_where_there_is_room(limits, caplog):
    memory, _ = limits
    memory["physical memory"] = 2000

    assert cache_size(1000, by_default=False) == 1000
    assert not caplog.records


def test_a_cache_takes_at_most_half_the_memory_and_whoever_set_more_is_told(limits, caplog):
    memory, addresses = limits
    memory.update({"physical memory": 2000, "its group": 1000})
    addresses["RLIMIT_AS"] = 16_000

    assert cache_size(1500, by_default=False) == 500
    assert [record.getMessage() for record in caplog.records] == [
        "cross_trainer_cache_size_bytes is 500 here, not 1500: that is half of its group"
    ]


def test_a_default_that_is_too_large_is_no_reason_for_a_warning(limits, caplog):
    memory, _ = limits
    memory["physical memory"] = 2000

    with caplog.at_level(logging.INFO):
        assert cache_size(1500, by_default=True) == 1000
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_limited_addresses_limit_a_cache():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, limits[1]))
    try:
        assert cache_size(1 << 40, by_default=False) <= 1 << 26
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_the_smallest_limit_of_all_control_groups_above_counts(tmp_path):
    write(tmp_path / "member", "0::/slice/service\n")
    write(tmp_path / "slice/service/memory.max", "max\n")
    write(tmp_path / "slice/memory.max", "12345\n")

    limits = memory_limits(tmp_path, tmp_path / "member")

    assert limits["the memory limit of its control group"] == 12345
    assert limits["physical memory"] > 1 << 20


def test_control_groups_of_the_first_version_count_also_where_their_path_is_another(tmp_path):
    write(tmp_path / "member", "12:cpu:/a\n5:hugetlb,memory:/docker/1f\n1:name=systemd:/\n")
    write(tmp_path / "memory/memory.limit_in_bytes", "777\n")

    assert (
        memory_limits(tmp_path, tmp_path / "member")["the memory limit of its control group"] == 777
    )


def test_where_there_are_no_control_groups_there_is_the_machine(tmp_path):
    assert list(memory_limits(tmp_path, tmp_path / "member")) == ["physical memory"]


def test_buffers_are_a_quarter_of_the_memory_divided_among_the_workers_of_a_host(limits):
    memory, _ = limits
    memory.update({"physical memory": 8000, "its group": 4000})

    assert buffer_size() == 1000
    assert buffer_size(workers=4) == 250


def test_where_the_system_says_nothing_of_memory_buffers_are_as_they_are_set(limits):
    assert buffer_size() >= 1 << 38
