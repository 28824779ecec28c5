"""Consumers of TensorFlow's, their task and their rounds."""

from penstock_dispatcher.tensorflow.in_step import InStep, RoundCount


def test_a_worker_is_needed_first_and_when_all_gave_the_task_up():
    step = InStep(2)
    assert step.needs_worker
    step.choose("w:1", 0)
    assert not step.needs_worker

    step.tell(0, 4)
    assert not step.needs_worker
    step.tell(1, 4)
    assert step.needs_worker
    step.choose("w:2", 1)
    assert not step.needs_worker


def test_rounds_are_counted_on_from_what_is_known():
    step = InStep(1)
    step.choose("w:1", 0)
    assert step.round_of(0, 7) is None

    step.count(RoundCount(0, 7, 3))

    assert [step.round_of(0, asked) for asked in (7, 9)] == [3, 5]
    assert step.round_of(0, 6) is None


def test_what_a_client_counted_in_one_task_says_nothing_in_the_next():
    step = InStep(1)
    step.choose("w:1", 0)
    step.count(RoundCount(0, 0, 0))
    step.tell(0, step.round_of(0, 8))

    step.choose("w:2", 1)

    assert step.round_of(0, 100) == step.round_of(0, 10) == 8
    assert list(step.counted()) == []
