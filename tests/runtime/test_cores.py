import os

import pytest

from penstock.runtime.cores import cores


@pytest.fixture
def many_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def member(tmp_path, *lines):
    membership = tmp_path / "membership"
    membership.write_text("".join(f"{line}\n" for line in lines))
    return membership


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_it_is_what_this_process_may_run_on(tmp_path, many_cores):
    assert cores(tmp_path, tmp_path / "none") == 8
    assert cores() >= 1


def test_a_quota_of_a_control_group_counts_with_those_around_it(tmp_path, many_cores):
    write(tmp_path / "cpu.max", "max 100000\n")
    write(tmp_path / "a/cpu.max", "300000 100000\n")
    write(tmp_path / "a/b/cpu.max", "max 100000\n")
    assert cores(tmp_path, member(tmp_path, "0::/a/b")) == 3


def test_a_part_of_a_core_counts_as_one(tmp_path, many_cores):
    write(tmp_path / "a/cpu.max", "50000 100000\n")
    assert cores(tmp_path, member(tmp_path, "0::/a")) == 1
    write(tmp_path / "a/cpu.max", "150000 100000\n")
    assert cores(tmp_path, member(tmp_path, "0::/a")) == 2


def test_the_older_files_of_control_groups_are_read_too(tmp_path, many_cores):
    write(tmp_path / "cpu/a/cpu.cfs_quota_us", "200000\n")
    write(tmp_path / "cpu/a/cpu.cfs_period_us", "100000\n")
    assert cores(tmp_path, member(tmp_path, "3:memory:/a", "4:cpu,cpuacct:/a")) == 2
    write(tmp_path / "cpu/a/cpu.cfs_quota_us", "-1\n")
    assert cores(tmp_path, member(tmp_path, "4:cpu,cpuacct:/a")) == 8


def test_files_that_say_something_else_limit_nothing(tmp_path, many_cores):
    write(tmp_path / "a/cpu.max", "what is this\n")
    assert cores(tmp_path, member(tmp_path, "0::/a", "nonsense")) == 8
