"""What `python -m benchmarks --write` makes of figures: tables between marks, and pictures."""

import re
import xml.etree.ElementTree as ET

import pytest

from benchmarks.__main__ import (
    ANSWERS,
    LONG,
    Answer,
    chosen,
    drawn,
    known,
    new_page,
    shown,
    table_of,
    written,
)
from benchmarks.measure import Figure
from benchmarks.pictures import grouped, picture

FAST = Figure("reading: Penstock", 2_000_000.0, 1_900_000.0, 2_100_000.0, "elements/s", 4.0)
SLOW = Figure("reading: a <peer>", 500_000.0, 400_000.0, 600_000.0, "elements/s")


def test_a_table_has_a_row_for_each_figure_with_its_ratio():
    lines = table_of(Answer("x", "?", "a machine", (SLOW, FAST))).splitlines()

    assert lines[2:4] == [
        "| reading: a <peer> | 500,000 | 400,000 to 600,000 | elements/s |  |",
        "| reading: Penstock | 2,000,000 | 1,900,000 to 2,100,000 | elements/s | 4.00 |",
    ]
    assert lines[-1].startswith("a machine, ")


def test_a_table_takes_the_place_of_the_one_between_its_marks_and_nothing_else():
    text = "by hand\n<!-- x -->\n\nold\n\n<!-- end of x -->\nby hand, too\n"

    assert written(text, "x", r"new \1") == (
        "by hand\n<!-- x -->\n\nnew \\1\n\n<!-- end of x -->\nby hand, too\n"
    )


def test_a_page_that_is_written_by_hand_stays_as_it_is_and_a_new_one_gets_a_title_and_a_table():
    by_hand = "# `bench_x.py`: how?\n\n| by | hand |\n"
    new = new_page(Answer("x", "How fast?", "a machine", (SLOW,)))

    assert written(by_hand, "x", "new") == by_hand
    assert written(new, "x", "new") == (
        "# `bench_x.py`: how fast?\n\n<!-- x -->\n\nnew\n\n<!-- end of x -->\n"
    )


def test_each_benchmark_has_a_page_of_its_answer_and_the_table_of_all_leads_to_each_page():
    pages = {page.stem for page in ANSWERS.glob("*.md")}
    table = (ANSWERS.parent / "README.md").read_text()

    assert set(known()) <= pages
    assert set(re.findall(r"\(answers/(\w+)\.md\)", table)) == pages


def test_figures_of_one_title_are_compared_and_the_others_unit_by_unit():
    alone = [Figure(f"{n} workers: cores", n, n, n, "cores") for n in (1.0, 2.0)]
    other = Figure("1 worker: wait", 3.0, 3.0, 3.0, "ms")

    groups = grouped("how?", [SLOW, FAST, *alone, other])

    assert [one.heading for one in groups] == ["reading (elements/s)", "all (cores)", "all (ms)"]
    assert groups[0].names == ("a <peer>", "Penstock")
    assert groups[1].names == ("1.0 workers: cores", "2.0 workers: cores")


def test_a_question_is_one_picture_but_each_one_put_to_peers_has_its_own():
    figures = (SLOW, FAST, Figure("first: a", 1.0, 1.0, 1.0, "ms"))

    assert list(drawn(Answer("x", "how?", "", figures))) == ["x"]
    assert list(drawn(Answer("peers", "how?", "", figures))) == ["peers-reading", "peers-all"]


def test_a_picture_is_valid_and_its_bars_are_as_long_as_figures_are_large():
    drawing = ET.fromstring(picture("reading", grouped("how?", [SLOW, FAST])))
    found = [one for one in drawing.iter() if one.tag.endswith("rect")]

    assert [one.get("class") for one in found] == ["bar", "bar ours"]
    slow, fast = (float(one.get("width")) for one in found)
    assert fast / slow == pytest.approx(4.0, rel=0.01)
    assert "a <peer>" in [one.text for one in drawing.iter() if one.tag.endswith("text")]


def test_the_page_shows_each_picture_by_its_title_those_beside_peers_first(tmp_path):
    for name in ("cache-all", "peers-reading"):
        (tmp_path / f"{name}.svg").write_text(picture(name, grouped("how?", [SLOW, FAST])))

    assert shown(tmp_path).splitlines()[::2] == [
        "![peers-reading](../images/benchmarks/peers-reading.svg)",
        "![cache-all](../images/benchmarks/cache-all.svg)",
    ]


def test_all_is_what_ends_within_minutes_and_an_unknown_name_is_told():
    assert set(chosen(["all"])) == set(known()) - LONG
    with pytest.raises(ValueError, match="no benchmark nothing: there are autocache, "):
        chosen(["engine", "nothing"])
