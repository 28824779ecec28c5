"""Where trainers agreed to stop outlasts a restart."""

from penstock.protocol.calls import PreemptionReport
from penstock_dispatcher.work_dir.fact_file import AGREEMENTS, agreements_at


def said(trainer, steps, **more):
    return PreemptionReport("g", trainer, steps, **more)


def test_an_agreed_step_is_known_in_the_next_life(tmp_path):
    step = agreements_at(str(tmp_path)).report(said("a", 10, noticed=True), 0.0).agreed

    assert agreements_at(str(tmp_path)).report(said("a", 10), 0.0).agreed == step


def test_groups_that_are_gone_leave_nothing(tmp_path):
    agreements = agreements_at(str(tmp_path))
    agreements.report(said("a", 10), 0.0)
    agreements.report(said("a", 11, leaving=True), 0.0)

    agreements_at(str(tmp_path))

    assert (tmp_path / AGREEMENTS).read_bytes() == b""


def test_without_a_folder_nothing_is_kept():
    assert agreements_at(None).report(said("a", 1), 0.0).allowed > 1
