"""Facts as bytes."""

import pytest

from penstock.errors import JournalError
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.journal import snapshot
from penstock_dispatcher.journal.store import Store
from tests.dispatcher.journal.random_facts import loaded


def test_a_fact_that_only_a_newer_version_knows_is_named(file):
    with Store(file, power=False) as store:
        store.append(1, snapshot.encode_facts([snapshot.msgspec.Raw(b"\x92\xa4Futu\x80")]))

    with pytest.raises(JournalError, match="'Futu', which only a newer Penstock knows"):
        loaded(file)


def test_a_field_that_has_a_default_may_be_missing_and_one_too_many_is_passed_over():
    fields = {"dataset": "d", "providers": [], "unsplittable": "", "newer": 1}
    row = snapshot.msgspec.msgpack.encode([("DatasetRegistered", fields)])

    assert snapshot.decode_facts(row) == [DatasetRegistered("d", (), "")]
