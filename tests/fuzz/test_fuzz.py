"""A short part of `make fuzz`, always the same, and the inputs that are kept of it."""

import os
import subprocess
from pathlib import Path

import pytest

from fuzz import as_bytes, outside
from fuzz.__main__ import fuzz, guided
from fuzz.judge import Judge
from fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damaged_input_is_read_or_refused_with_an_error_of_ours(target):
    outcomes, faults = fuzz(target, 1, range(25 * target.share))

    assert not faults, "\n".join(f"{where}\n{fault}" for where, fault in faults)
    assert outcomes.total() == 25 * target.share


@pytest.mark.quick(4)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_inputs_that_are_kept_are_read_or_refused_with_an_error_of_ours(target):
    form = as_bytes.FORMS[target.name]
    inputs = [*form.seeds(), *as_bytes.kept(target.name)]

    with Judge() as judge:
        judged = [judge.judged(target, form.given(data)) for data in inputs]

    assert [fault for _, fault in judged if fault] == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_valid_inputs_are_read_when_they_come_as_bytes(target):
    form = as_bytes.FORMS[target.name]

    with Judge() as judge:
        ends = {judge.judged(target, form.given(data))[0] for data in form.seeds()}

    assert "read" in ends


def test_what_a_process_of_the_other_engine_leaves_in_memory_goes_with_it(monkeypatch):
    left = []

    def ends_at_once(command, env, **_):
        left.append(Path(env[outside.WHERE], "records"))
        left[0].write_bytes(b"damaged")
        return subprocess.CompletedProcess(command, 0, '{"outcomes": {"read": 3}, "faults": []}\n')

    monkeypatch.setattr(subprocess, "run", ends_at_once)
    outcomes, faults = guided(TARGETS[0], 1, 3)

    assert (outcomes.total(), faults) == (3, [])
    assert not left[0].parent.exists()
    assert outside.WHERE not in os.environ
