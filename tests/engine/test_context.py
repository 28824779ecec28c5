from dataclasses import replace

import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.splits import SourceProgress, SplitReader
from penstock.errors import MissingFile, StateError
from penstock.graph.run import open_root
from penstock.protocol.splits import Split


def test_seeds_differ_by_task_path_and_pass():
    contexts = [
        Context.local(1),
        Context.local(2),
        Context.local(1, task=3),
        Context(Context.local(1).base_seed, path=".0"),
        Context(Context.local(1).base_seed, pass_key=4),
        Context.local(1).inner(0),
        Context.local(1).inner(1),
    ]

    assert len({context.seed() for context in contexts}) == len(contexts)


def test_an_explicit_seed_differs_by_pass_only():
    assert Context.local(1).seed(5) == Context.local(2, task=7).seed(5) == 5
    assert Context.local(1).seed(-5) == -5
    assert Context(1, pass_key=1).seed(5) != Context(1, pass_key=2).seed(5)
    assert Context(1, pass_key=1).seed(5, every_pass=False) == 5


def test_tasks_that_draw_splits_have_one_seed_for_what_these_mean():
    def seed(job, task, path, **kwargs):
        local = replace(Context.local(job, task), path=path, providers={".0": 0}, **kwargs)
        return replace(local, splits=SplitReader(lambda *_: Split(0, 0))).seed()

    assert seed(1, 0, ".0") == seed(1, 5, ".0")
    assert seed(1, 0, "") != seed(1, 5, "")
    others = [seed(1, 0, ".0"), seed(2, 0, ".0"), seed(1, 0, ".0", pass_key=3), seed(1, 0, "")]
    assert len(set(others)) == 4


def test_an_operator_that_does_not_reshuffle_has_one_seed_for_all_passes():
    assert Context(1).seed(every_pass=False) == Context(1, pass_key=9).seed(every_pass=False)


def test_an_error_of_a_state_names_the_operator_and_its_place():
    node = Dataset.range(5).take(3).map(lambda x: x).node

    with pytest.raises(StateError, match=r"does not fit take \(at \.0\)"):
        open_root(node, Context.local(1), [3, 7])


def test_other_errors_of_opening_stay_what_they_are(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("a\nb\n")
    node = Dataset.text_lines(file).node
    saved = open_root(node, Context.local(1)).mark()(0)
    file.unlink()

    with pytest.raises(MissingFile):
        next_block = open_root(node, Context.local(1)).block(1)
        list(next_block)
    with pytest.raises(StateError, match="have changed since the state was saved"):
        open_root(node, Context.local(1), saved)


def test_a_first_pass_begins_with_the_log():
    assert SplitReader(_never).enter(".0", 0, "a") == 0


def test_a_pass_begins_behind_the_empty_split_of_the_last():
    reader = SplitReader(_never)
    reader.resume(".0", "a")
    reader.record(".0", "a", SourceProgress(4, had_splits=True, over=True))

    assert reader.enter(".0", 0, "b") == 5


def test_what_the_last_pass_left_is_dropped():
    log = [Split(0, 1), Split(1, 2), Split(2, 3), Split(3, 3), Split(0, 1)]
    reader = SplitReader(lambda stream, position: log[position])
    reader.resume(".0", "a")
    reader.record(".0", "a", SourceProgress(1, had_splits=True, over=False))

    assert reader.enter(".0", 0, "b") == 4


def test_who_reads_ahead_in_a_pass_that_was_left_is_not_heard():
    reader = SplitReader(_never)
    reader.resume(".0", "a")
    reader.record(".0", "a", SourceProgress(4, had_splits=True, over=True))
    reader.enter(".0", 0, "b")
    reader.record(".0", "b", SourceProgress(9, had_splits=True, over=True))

    reader.record(".0", "a", SourceProgress(2, had_splits=True, over=False))

    assert reader.enter(".0", 0, "c") == 10


def test_passes_are_those_below_a_path():
    reader = SplitReader(_never)
    one, two, ten = (SourceProgress(n, had_splits=False, over=False) for n in (1, 2, 10))
    for path, now in ((".0.1", one), (".0.1.0", two), (".0.10", ten)):
        reader.resume(path, "a")
        reader.record(path, "a", now)

    assert reader.passes(".0.1") == {".0.1": one, ".0.1.0": two}
    assert set(reader.passes("")) == {".0.1", ".0.1.0", ".0.10"}


def _never(stream, position):
    raise AssertionError("nothing to be fetched")
