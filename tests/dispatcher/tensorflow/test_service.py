"""What is told of the mesh to TensorFlow's clients."""

from types import SimpleNamespace

from penstock.protocol.names import scoped
from penstock.protocol.nearness import WorkerProfile
from penstock_dispatcher.tensorflow.service import DispatcherKnowledge


def test_of_workers_it_tells_their_lives_and_where_they_need_no_credentials():
    worker, other = (
        SimpleNamespace(incarnation=life, profile=WorkerProfile(tensorflow=at))
        for life, at in ((3, "a:9"), (4, ""))
    )
    job = SimpleNamespace(finished={2})
    state = SimpleNamespace(
        workers={"a:1": worker, "b:1": other}, jobs={scoped("train", "job"): job}
    )
    known = DispatcherKnowledge(SimpleNamespace(core=SimpleNamespace(state=state)))

    assert known.live_workers() == [("a:1", 3), ("b:1", 4)]
    assert known.tensorflow_addresses() == {"a:1": "a:9"}
    assert known.is_finished("train", "job", 2)
    assert not known.is_finished("train", "job", 1)
    assert not known.is_finished("other", "job", 2)
