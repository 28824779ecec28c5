import json
import os
import traceback

import fsspec
import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator
from penstock.errors import DatasetError, MissingFile, TransformError
from penstock.graph.node import UNKNOWN
from penstock.graph.run import open_root
from penstock.ops.internal import dead_letters


def picky(x):
    if x % 3 == 1:
        raise ValueError(f"not {x}")
    return x


def failing(count, **kwargs):
    return Dataset.range(count).map(picky).ignore_errors(**kwargs)


def letters(folder):
    texts = [file.read_text("ascii") for file in sorted(folder.iterdir())]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_elements_that_cannot_be_made_are_left_out(check_states):
    check_states(lambda: failing(11), [0, 2, 3, 5, 6, 8, 9])
    check_states(lambda: failing(0), [])
    check_states(lambda: Dataset.range(5).map(lambda x: 1 // 0).ignore_errors(), [])
    check_states(lambda: Dataset.range(4).ignore_errors(), [0, 1, 2, 3])


@pytest.mark.parametrize("parallel", [None, 2])
def test_every_place_behind_other_stages_has_an_exact_state(check_states, parallel):
    def pipeline():
        made = Dataset.range(12).shuffle(4, seed=1).map(picky, num_parallel_calls=parallel)
        return made.ignore_errors().repeat(2).batch(3)

    check_states(pipeline)


def test_errors_of_batches_cost_the_batch(check_states):
    def ragged():
        return Dataset.range(6).map(lambda x: np.zeros(1 + x // 5)).batch(2).ignore_errors()

    check_states(ragged, [np.zeros((2, 1)), np.zeros((2, 1))])


def test_the_error_behind_the_most_is_raised_and_so_are_those_behind_it(check_states):
    one, other = (
        TransformError(
            "ignore_errors",
            number,
            f"this is error number {count}, and max_errors is 2; it says: "
            f"map(picky) failed at element {number}: ValueError: not {number}",
        )
        for number, count in ((7, 3), (10, 4))
    )

    check_states(lambda: failing(12, max_errors=2), [0, 2, 3, 5, 6, one, 8, 9, other, 11])


def test_the_original_error_is_the_cause():
    with pytest.raises(TransformError, match="max_errors is 0") as caught:
        list(failing(3, max_errors=0))

    assert isinstance(caught.value.__cause__, TransformError)
    assert isinstance(caught.value.__cause__.__cause__, ValueError)
    assert "not 1" in caught.value.remote_traceback


def test_each_pass_counts_its_own_errors():
    assert list(failing(3, max_errors=1).repeat(3)) == [0, 2] * 3


def test_other_errors_go_through():
    with pytest.raises(DatasetError, match="int64"):
        list(Dataset.range(3).enumerate(2**63 - 1).ignore_errors())
    with pytest.raises(MissingFile):  # nothing can be made of it
        list(Dataset.text_lines("/gone").ignore_errors())


def test_an_error_of_a_job_is_no_element():
    def fail(x):
        raise TransformError("map(f)", 3, "gone", worker="host:1")

    with pytest.raises(TransformError, match="host:1"):
        list(Dataset.range(3).map(fail).ignore_errors())


def test_what_does_not_get_further_is_raised():
    run = open_root(failing(3).node, Context.local(0))
    stuck = Stuck()
    run._upstream, run._below = stuck, stuck.mark()

    with pytest.raises(TransformError, match="stuck"):
        run.block(1)


class Stuck(OpIterator):
    def block(self, n):
        raise TransformError("stage", 0, "stuck")

    def mark(self):
        return lambda back: [7]


def test_each_element_left_out_has_a_record(tmp_path):
    log = tmp_path / "a" / "b"

    list(failing(6, log=log).batch(2))

    first, second = letters(log)
    assert (first["source"], first["element"]) == ("map(picky)", 1)
    assert (first["error"], first["message"]) == ("ValueError", "ValueError: not 1")
    assert 'raise ValueError(f"not {x}")' in first["traceback"]
    assert first["pid"] == os.getpid()
    assert first["time"].endswith("+00:00")
    assert second["element"] == 4
    assert first["id"] != second["id"]


def test_the_record_names_the_file_of_a_source(tmp_path):
    (tmp_path / "cut").write_bytes(b"abcde")

    list(Dataset.fixed_length_records(tmp_path / "cut", 2).ignore_errors(log=tmp_path / "log"))

    (letter,) = letters(tmp_path / "log")
    assert letter["source"] == f"fixed_length_records({tmp_path / 'cut'})"
    assert "record 2, at byte 4" in letter["message"]


def test_the_record_of_an_error_without_a_stage_names_the_stage_before(tmp_path):
    ragged = Dataset.range(2).map(lambda x: np.zeros(x)).batch(2)

    list(ragged.ignore_errors(log=tmp_path))

    (letter,) = letters(tmp_path)
    assert (letter["source"], letter["element"], letter["error"]) == ("batch", 0, "ElementError")


def test_what_is_made_again_in_one_process_has_one_record(tmp_path):
    it = iter(failing(9, log=tmp_path))
    state = it.state()
    list(it)

    list(failing(9, log=tmp_path).iterator(state))
    assert [letter["element"] for letter in letters(tmp_path)] == [1, 4, 7]

    list(failing(9, log=tmp_path).repeat(2))
    assert len({letter["id"] for letter in letters(tmp_path)}) == 9


def test_what_is_made_again_in_another_process_has_the_same_id(tmp_path, monkeypatch):
    it = iter(failing(9, log=tmp_path))
    state = it.state()
    list(it)
    monkeypatch.setattr(dead_letters, "_files", {})  # as a process that begins anew

    list(failing(9, log=tmp_path).iterator(state))

    found = letters(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert len(found) == 6
    assert len({letter["id"] for letter in found}) == 3


def test_a_process_remembers_so_many_records_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letters, "REMEMBERED", 2)

    list(failing(30, log=tmp_path))

    assert len(dead_letters._file_in(str(tmp_path))._written) == 2


def test_a_folder_behind_a_url_gets_files_of_many_records(monkeypatch):
    monkeypatch.setattr(dead_letters, "PART_CHARS", 3000)
    fs = fsspec.filesystem("memory")

    list(failing(60, log="memory://dead/letters"))

    try:
        files = fs.glob("/dead/letters/*.jsonl")
        lines = [line for file in sorted(files) for line in fs.cat_file(file).splitlines()]
        assert [json.loads(line)["element"] for line in lines] == list(range(1, 60, 3))
        assert 1 < len(files) < 20
    finally:
        fs.rm("/dead", recursive=True)


def test_a_log_that_cannot_be_written_is_named_and_nothing_is_lost(tmp_path):
    log = tmp_path / "log"
    it = iter(failing(6, log=log))
    assert next(it) == 0
    log.write_text("in the way")

    with pytest.raises(DatasetError, match=f"{log}.*make room"):
        next(it)
    log.unlink()

    assert list(it) == [2, 3, 5]
    assert [letter["element"] for letter in letters(log)] == [1, 4]


def test_long_tracebacks_are_cut_in_the_middle(tmp_path):
    def fail(x):
        raise ValueError("begin" + "x" * 200_000 + "end")

    list(Dataset.range(1).map(fail).ignore_errors(log=tmp_path))

    (letter,) = letters(tmp_path)
    assert letter["traceback"].startswith("Traceback")
    assert letter["traceback"].endswith("end\n")
    assert len(letter["traceback"]) < 70_000


def test_text_that_is_no_utf8_is_written(tmp_path):
    def fail(x):
        raise ValueError("\udcff\0\n")

    list(Dataset.range(1).map(fail).ignore_errors(log=tmp_path))

    assert letters(tmp_path)[0]["message"] == "ValueError: \udcff\0\n"


def test_bad_arguments_are_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for wrong in (-1, 1.5, "1", True):
        with pytest.raises(DatasetError, match="max_errors"):
            Dataset.range(1).ignore_errors(wrong)
    for wrong in (3, print, "", file):
        with pytest.raises(DatasetError, match="log"):
            Dataset.range(1).ignore_errors(log=wrong)


def test_how_many_there_are_is_not_known():
    assert failing(3).cardinality() == UNKNOWN


def test_that_each_task_counts_is_said_where_it_matters():
    said = str(failing(9, max_errors=1).distribute("distributed_epoch", "host:1").visitation())

    assert "ignore_errors sees only each task's own part" in said
    assert "ignore" not in str(failing(9).distribute("distributed_epoch", "host:1").visitation())


def test_errors_hold_no_iterator():
    it = iter(failing(3, max_errors=0))
    next(it)
    try:
        next(it)
    except TransformError as error:
        frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert all(value is not error for held in frames[1:] for value in held.values())
