"""Digests of rows: each depends on all that it stands for, and on the key."""

import itertools

from penstock_dispatcher.journal.row_mac import RowMacs, wrapped

MACS = RowMacs(b"k" * 32)


def test_all_that_a_digest_stands_for_changes_it():
    found = [
        MACS.facts(0, 1, b"body"),
        MACS.facts(1, 1, b"body"),
        MACS.facts(0, 2, b"body"),
        MACS.facts(0, 1, b"bodY"),
        MACS.live(0, 1, b"body"),
        MACS.live(1, 1, b"body"),
        MACS.live(0, 2, b"body"),
        MACS.live(0, 1, b"bodY"),
        MACS.line(1, "jobs", b"j", b"body"),
        MACS.line(2, "jobs", b"j", b"body"),
        MACS.line(1, "job", b"sj", b"body"),
        MACS.line(1, "jobs", b"jb", b"ody"),
        MACS.line(1, "jobsj", b"", b"body"),
        MACS.line(1, "jobs", b"", b"jbody"),
        RowMacs(b"k" * 31 + b"l").facts(0, 1, b"body"),
        RowMacs(b"k" * 31 + b"l").live(0, 1, b"body"),
        RowMacs(b"k" * 31 + b"l").line(1, "jobs", b"j", b"body"),
    ]

    assert len(set(found)) == len(found)
    assert all(-(2**63) <= mac < 2**63 for mac in found)
    assert found[0] == MACS.facts(0, 1, b"body")


def test_a_sum_is_an_integer_of_64_bits_whatever_its_order():
    macs = [MACS.line(rank, "jobs", b"j", b"body") for rank in range(5)]
    sums = set()
    for order in itertools.permutations(macs):
        total = 0
        for mac in order:
            total = wrapped(total + mac)
            assert -(2**63) <= total < 2**63
        sums.add(total)

    assert len(sums) == 1
    assert wrapped(sums.pop() - sum(macs)) == 0
