"""Facts as bytes."""

import pytest

from penstock.errors import JournalError
from penstock.protocol.calls import JobParameters, OnError
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, Mode
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.core.facts import JobCreated
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


OF_PROTOCOL_2 = bytes.fromhex(
    "9192aa4a6f624372656174656484a36a6f62a16aaa706172616d6574657273de0010a764617461736574"
    "a164a46d6f6465a36f6666a5636f646563a36c7a34ad6e756d5f636f6e73756d65727302ac7368617265"
    "645f6361636865c2ae7461726765745f776f726b657273a3414e59a76f726465726564c3a972656d6169"
    "6e646572a3706164a870617469656e636503a97768656e5f66756c6ca0aa646174617365745f6964a0a8"
    "6f6e5f6572726f72a4736b6970aa6d61785f6572726f727305a673686172647300a6737472696465c0a4"
    "7365656407a47365656407a770726976617465c2"
)
"""A job whose parameters were still text, as journals of protocol 2 have it."""


def test_a_job_that_was_written_under_protocol_2_is_read():
    parameters = JobParameters(
        "d",
        Mode.OFF,
        Codec.LZ4,
        2,
        target_workers=TargetWorkers.ANY,
        ordered=True,
        remainder=Remainder.PAD,
        patience=3,
        on_error=OnError.SKIP,
        max_errors=5,
        seed=7,
    )

    assert snapshot.decode_facts(OF_PROTOCOL_2) == [JobCreated("j", parameters, 7, False)]
