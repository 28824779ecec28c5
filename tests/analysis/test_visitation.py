"""Which promise a pipeline can keep, and why."""

import dataclasses
import random

import pytest

from penstock.analysis.visitation import Guarantee, Visitation
from penstock.dataset.dataset import Dataset
from penstock.protocol.types import SHARD_HINT, ShardingPolicy

SERVICE = "grpc://127.0.0.1:1"


def jitter(x):
    return x + random.random()


def promised(ds):
    return ds.visitation().promise


def test_a_pipeline_that_repeats_itself_gives_each_element_exactly_once():
    ds = Dataset.range(9).map(lambda x: x).shuffle(4).batch(2)

    assert ds.visitation() == Visitation(Guarantee.EXACTLY_ONCE)


def test_each_policy_has_a_promise_of_its_own():
    ds = Dataset.range(9).map(abs)

    assert promised(ds.distribute("distributed_epoch", SERVICE)) is Guarantee.EXACTLY_ONCE
    assert promised(ds.distribute("parallel_epochs", SERVICE)) is Guarantee.EXACT_COPIES


def test_fixed_parts_come_once_and_what_is_behind_the_cut_sees_one():
    lines = Dataset.text_lines("a").take(9).shard(SHARD_HINT, 0).batch(2)
    plain = Dataset.text_lines("a").take(9).batch(2)
    policies = ShardingPolicy.FILE, ShardingPolicy.FILE_OR_DATA, ShardingPolicy.DATA

    found = [plain.distribute(policy, SERVICE).visitation() for policy in policies]
    hinted = lines.distribute(ShardingPolicy.HINT, SERVICE).visitation()

    assert {each.promise for each in (*found, hinted)} == {Guarantee.EXACTLY_ONCE}
    assert [each.apart for each in found] == [("take", "batch"), ("take", "batch"), ()]
    assert hinted.apart == ("batch",)


def test_an_inexact_function_weakens_the_promise_of_each_policy():
    ds = Dataset.range(9).map(jitter)
    dynamic = ds.distribute("distributed_epoch", SERVICE).visitation()

    assert dynamic.promise is Guarantee.ONCE_WHILE_NOTHING_DIES
    assert dynamic.reasons == ds.visitation().reasons
    assert "map(jitter) draws on random.random" in dynamic.reasons[0]
    off = ds.distribute("parallel_epochs", SERVICE)
    assert promised(off) is Guarantee.COPIES_WHILE_NOTHING_DIES


def test_what_runs_in_the_training_process_is_never_made_again_and_weakens_nothing():
    far = Dataset.range(9).distribute("distributed_epoch", SERVICE)
    ds = far.map(jitter, num_parallel_calls=2, deterministic=False).batch(2)

    assert ds.visitation() == far.visitation()


def test_of_several_jobs_the_weakest_counts():
    exact = Dataset.range(9).distribute("distributed_epoch", SERVICE)
    copies = Dataset.range(9).distribute("parallel_epochs", SERVICE)
    nondeterministic = Dataset.range(9).map(jitter).distribute("distributed_epoch", SERVICE)

    assert promised(Dataset.zip(exact, copies)) is Guarantee.EXACT_COPIES
    assert promised(Dataset.zip(exact, copies).concatenate(nondeterministic)) is (
        Guarantee.ONCE_WHILE_NOTHING_DIES
    )


def test_a_job_read_by_workers_of_another_is_a_weakness():
    near = Dataset.range(9).distribute("distributed_epoch", SERVICE)
    ds = near.map(abs).distribute("parallel_epochs", SERVICE)

    assert promised(ds) is Guarantee.COPIES_WHILE_NOTHING_DIES
    assert "put distribute on the training side only" in ds.visitation().reasons[0]
    assert ds.node.remote.definition.nondeterministic == ds.visitation().reasons[0]


def test_a_generator_keeps_the_promise_on_a_condition_that_is_said():
    (note,) = Dataset.from_generator(lambda: range(3)).visitation().notes

    assert promised(Dataset.from_generator(lambda: range(3))) is Guarantee.EXACTLY_ONCE
    assert note.startswith("from_generator(<lambda>) is run again from its start")


def test_operators_that_see_only_a_part_of_the_elements_are_noted_where_there_are_parts():
    ds = Dataset.range(9).filter(bool).take(5).map(abs).unique()
    far = ds.distribute("distributed_epoch", SERVICE).visitation()

    assert far.apart == ("take", "unique")
    assert str(far).splitlines()[0] == (
        "Each element exactly once, whatever dies; but take and unique see only each task's own "
        "part of the elements."
    )
    assert far.notes[0].startswith("take sees each task's own part: each takes this number;")
    assert ds.distribute("parallel_epochs", SERVICE).visitation().notes == ()
    assert ds.visitation().notes == ()


def test_it_says_how_many_copies_there_are_of_what_is_not_split():
    choices = Dataset.range(2).repeat(5)
    chosen = Dataset.choose_from_datasets([Dataset.range(9), Dataset.range(9)], choices).batch(2)

    dynamic = chosen.distribute("distributed_epoch", SERVICE).visitation()
    copies = chosen.distribute("parallel_epochs", SERVICE).visitation()

    assert "each worker has one copy of its choice_dataset" in dynamic.notes[0]
    assert not copies.notes


def test_operators_that_the_source_does_by_its_index_see_all_elements():
    ds = Dataset.range(9).shard(2, 1).skip(1).take(5).batch(2).enumerate()

    assert ds.distribute("distributed_epoch", SERVICE).visitation().apart == ("enumerate",)
    ds = Dataset.range(9).shard(2, 1).skip(1).enumerate().take(5).batch(2)
    far = ds.distribute("distributed_epoch", SERVICE).visitation()
    assert far == Visitation(Guarantee.EXACTLY_ONCE)


def test_a_branch_is_not_taken_for_another_whose_number_begins_alike():
    far = Dataset.range(9).batch(3).distribute("parallel_epochs", SERVICE)
    near = Dataset.range(9).batch(3)
    branches = [near, near.unbatch(), *([near] * 8), far]

    assert Dataset.zip(*branches).visitation().notes == ()


@pytest.mark.parametrize(
    "cut",
    [
        Dataset.unbatch,
        lambda ds: ds.rebatch(2),
        lambda ds: ds.map(lambda x: x).flat_map(Dataset.from_tensor_slices),
        lambda ds: ds.unbatch().batch(4),
    ],
)
def test_operators_that_cut_elements_of_the_mesh_are_noted(cut):
    far = Dataset.range(9).batch(3).distribute("parallel_epochs", SERVICE)
    notes = cut(far).visitation().notes

    assert "after distribute cuts elements into pieces" in notes[0]
    before = cut(Dataset.range(9).batch(3)).distribute("parallel_epochs", SERVICE)
    assert before.visitation().notes == ()


def test_a_visitation_reads_as_text():
    source = Dataset.from_generator(lambda: range(3))

    text = str(source.map(jitter).visitation())

    first, why, reason, note, condition = text.splitlines()
    assert first.startswith("Each element exactly once while nothing dies;")
    assert (why, note) == ("Why:", "Note:")
    assert reason.startswith("- map(jitter) draws on random.random")
    assert condition.startswith("- from_generator(<lambda>) is run again")


def test_a_visitation_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dataset.range(1).visitation().promise = Guarantee.EXACT_COPIES


@pytest.mark.parametrize(
    ("between", "said"),
    [
        (lambda d: d.map(abs).batch(2), "a state restored by another number of readers"),
        (lambda d: d.enumerate(), "a restored state starts {} behind distribute over"),
    ],
)
@pytest.mark.parametrize(
    ("op", "build"),
    [
        ("shuffle", lambda d: d.shuffle(4)),
        ("bucket_by_sequence_length(len)", lambda d: d.bucket_by_sequence_length(len, [2], [3, 3])),
        ("group_by_window(abs)", lambda d: d.group_by_window(abs, lambda k, w: w.batch(2), 2)),
        ("pack", lambda d: d.pack(9, split_long="error")),
        ("token_batches", lambda d: d.token_batches(9)),
        ("balance", lambda d: d.balance(2)),
    ],
)
def test_the_first_line_says_when_what_operators_select_from_starts_over(between, said, op, build):
    far = Dataset.range(9).distribute("distributed_epoch", SERVICE)

    assert said.format(op) in str(build(between(far)).visitation()).splitlines()[0]


@pytest.mark.parametrize(
    ("ordered", "build", "said"),
    [
        (False, lambda d: d.filter(bool), True),
        (False, lambda d: d.shuffle(4), True),
        (False, lambda d: d.unbatch(), True),
        (False, lambda d: d.map(abs).batch(2), False),
        (True, lambda d: d.shuffle(4), False),
    ],
)
def test_a_note_says_when_coordinated_reads_cannot_be_saved(ordered, build, said):
    how = {"job_name": "j", "consumer_index": 0, "num_consumers": 2, "ordered": ordered}
    far = Dataset.range(9).batch(3).distribute("distributed_epoch", SERVICE, **how)

    assert ("raises SaveFailed while consumers need" in str(build(far).visitation())) is said


@pytest.mark.parametrize(
    ("kwargs", "cuts"),
    [({}, True), ({"method": "concat"}, True), ({"split_long": "drop"}, False)],
)
def test_a_note_says_when_pack_cuts_documents(kwargs, cuts):
    far = Dataset.range(9).distribute("distributed_epoch", SERVICE)

    said = str(far.pack(9, **kwargs).visitation())

    assert ("pack after distribute cuts elements into pieces" in said) is cuts


def test_the_first_line_says_that_pieces_may_come_again():
    far = Dataset.range(9).batch(3).distribute("distributed_epoch", SERVICE)

    first = str(far.unbatch().visitation()).splitlines()[0]
    assert "by several that share a job" in first
    assert first.endswith("comes again whole, with the pieces that a loop had.")
