"""The table of workers."""

import re
from dataclasses import replace

from penstock_cluster.cli.picture import workers_table
from tests.cluster.cli.shown import VERSIONS, shown, worker


def table(*workers):
    return workers_table(workers, VERSIONS)


def test_tags_have_a_column_where_there_are_any():
    tagged = replace(worker("a:1"), tags=("COLOCATED", "fast"))

    assert "tags" not in shown(table(worker("b:1")))
    text = shown(table(tagged, worker("b:1")))
    assert "tags" in text
    assert "COLOCATED fast" in text


def test_frames_lent_and_copied_out_have_columns_where_there_are_any():
    lends = worker("a:1")
    lends = replace(lends, stats={**lends.stats, "lent": 12_345, "copied_out": 67})

    assert "lent" not in shown(table(worker("b:1")))
    text = shown(table(lends, worker("b:1")))
    head, one, other = (line for line in text.splitlines() if re.search(r"sent, MB|:1 ", line))
    assert re.search(r"sent, MB ┃ +lent ┃ copied out ┃$", head)
    assert re.search(r"12,345 │ +67 │$", one)
    assert re.search(r"1,000,000.0 │ +│ +│$", other)


def test_the_cache_of_remote_files_has_columns_where_there_is_one():
    caches, idle = worker("a:1"), worker("b:1")
    counts, full = {"cache_hits": 30, "cache_misses": 10}, {"held": 1_234_500_000, "bound": 2**31}
    caches = replace(caches, stats={**caches.stats, "storage": counts, "file_cache": full})
    none = {"cache_hits": 0, "cache_misses": 0}
    idle = replace(idle, stats={**idle.stats, "storage": none, "file_cache": full})

    assert "file cache" not in shown(table(worker("b:1")))
    text = shown(table(caches, idle, worker("c:1")))
    head, one, two, other = (line for line in text.splitlines() if re.search(r"sent, MB|:1 ", line))
    assert re.search(r"file cache, MB ┃ file cache hits ┃$", head)
    assert re.search(r"1,234.5 │ +75 % │$", one)
    assert re.search(r"1,234.5 │ +- │$", two)
    assert re.search(r"1,000,000.0 │ +│ +│$", other)


def test_bytes_of_remote_files_have_columns_where_any_were_read():
    reads, idle = worker("a:1"), worker("b:1")
    counts = {"requests": 40, "nbytes": 5_678_900_000, "retries": 1234}
    reads = replace(reads, stats={**reads.stats, "storage": counts})
    idle = replace(idle, stats={**idle.stats, "storage": dict.fromkeys(counts, 0)})

    assert "remote files" not in shown(table(idle))
    head, one, other = (
        line for line in shown(table(reads, idle)).splitlines() if re.search(r"sent, MB|:1 ", line)
    )
    assert re.search(r"remote files, MB ┃ retries ┃$", head)
    assert re.search(r"5,678.9 │ +1,234 │$", one)
    assert re.search(r"1,000,000.0 │ +│ +│$", other)


def test_busy_cores_and_tasks_are_shown_instead_of_slots():
    stats = {"tasks": [{"task": 1, "state": "runs"}], "usage": {"busy": 1.26, "cores": 2}}
    crowded = replace(worker("a:1"), tasks=tuple(range(31)), slots=2, slots_used=31, stats=stats)
    silent = replace(crowded, address="b:1", silent=30.0)

    text = shown(table(crowded, silent))
    head, one, other = (line for line in text.splitlines() if re.search(r"busy cores|:1 ", line))

    assert re.search(r"busy cores ┃ running ┃ assigned ┃", head)
    assert re.search(r"live +│ +1\.3 of 2 │ +1 │ +31 │", one)
    assert re.search(r"silent for 30.0 s │ +- │ +- │ +31 │", other)
    assert "31/2" not in text
