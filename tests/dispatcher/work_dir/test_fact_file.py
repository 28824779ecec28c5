"""Facts in a file, a line of JSON for each."""

import msgspec

from penstock_dispatcher.work_dir.fact_file import FactFile


class Fact(msgspec.Struct, frozen=True):
    number: int


def file_at(path):
    return FactFile(path, Fact, "nothing goes on")


def test_what_is_kept_is_read_again(tmp_path):
    first = file_at(tmp_path / "facts")
    for number in range(3):
        first.keep(Fact(number))

    assert list(file_at(tmp_path / "facts").read()) == [Fact(0), Fact(1), Fact(2)]


def test_a_file_is_made_with_the_first_fact(tmp_path):
    file_at(tmp_path / "facts").rewrite([])

    assert not (tmp_path / "facts").exists()


def test_what_is_rewritten_is_all_there_is(tmp_path):
    facts = file_at(tmp_path / "facts")
    facts.keep(Fact(1))
    facts.rewrite([Fact(7)])
    facts.keep(Fact(8))

    assert list(facts.read()) == [Fact(7), Fact(8)]


def test_a_damaged_line_is_said_and_a_cut_off_one_is_not(tmp_path, caplog):
    (tmp_path / "facts").write_bytes(b'nonsense\n{"number":1}\n{"num')

    assert list(file_at(tmp_path / "facts").read()) == [Fact(1)]
    assert caplog.text.count("is no fact") == 1
    assert "line 1" in caplog.text


def test_without_a_file_nothing_is_kept():
    facts = FactFile(None, Fact, "")
    facts.keep(Fact(1))

    assert list(facts.read()) == []


def test_what_cannot_be_written_is_said_once(tmp_path, caplog):
    facts = file_at(tmp_path / "nowhere" / "facts")
    facts.keep(Fact(1))
    facts.keep(Fact(2))

    assert caplog.text.count("cannot be written") == 1
    assert "nothing goes on" in caplog.text
