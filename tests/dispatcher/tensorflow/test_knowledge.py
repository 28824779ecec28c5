"""What is told of the mesh to TensorFlow's clients."""

from types import SimpleNamespace

from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.registration import scoped
from penstock_dispatcher.core.stats import Counts, DispatcherStats
from penstock_dispatcher.tensorflow.knowledge import MeshKnowledge


def test_of_workers_it_tells_their_lives_and_where_they_need_no_credentials():
    worker, other = (
        SimpleNamespace(incarnation=life, profile=WorkerProfile(tensorflow=at))
        for life, at in ((3, "a:9"), (4, ""))
    )
    job = SimpleNamespace(finished={2})
    state = SimpleNamespace(
        workers={"a:1": worker, "b:1": other}, jobs={scoped("train", "job"): job}
    )
    known = MeshKnowledge(None, SimpleNamespace(state=state), ("train",))

    assert known.live_workers() == [("a:1", 3), ("b:1", 4)]
    assert known.tensorflow_addresses() == {"a:1": "a:9"}
    assert known.is_finished("train", "job", 2)
    assert not known.is_finished("train", "job", 1)
    assert not known.is_finished("other", "job", 2)


def test_status_says_what_is_read_without_credentials_and_where():
    known = MeshKnowledge(None, None, ("train",))
    known.opened_at = "big:7001"
    told = known.told(DispatcherStats("big:7000", 1, 1, 1, Counts(), (), ()))

    assert (told.tensorflow, told.tensorflow_datasets) == ("big:7001", ("train",))
