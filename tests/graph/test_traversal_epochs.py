"""A source that is set to another epoch is known by it."""

from penstock.dataset.dataset import Dataset
from penstock.graph.traversal import epochs_of
from penstock.reader.node import RemotePipeline


class Stream:
    """As much of a `datasets.IterableDataset` as is called."""

    features = None
    epoch = 0

    def with_format(self, _):
        return self

    def __iter__(self):
        return iter([self.epoch])


def test_a_pipeline_is_sent_again_only_after_its_epoch_changed():
    stream = Stream()
    remote = RemotePipeline(Dataset.from_huggingface(stream).map(abs).node)
    first = remote.definition.fingerprint

    assert not remote.renew()
    stream.epoch = 2
    assert epochs_of(remote.node) == (2,)
    assert remote.renew()
    assert remote.definition.fingerprint != first
    assert not remote.renew()


def test_other_sources_have_no_epochs():
    assert epochs_of(Dataset.range(3).map(abs).node) == ()


def test_workers_read_the_epoch_of_each_pass(cluster):
    stream = Stream()
    dataset = Dataset.from_huggingface(stream).distribute("distributed_epoch", cluster.target)
    read = []
    for epoch in range(3):
        stream.epoch = epoch
        read += map(int, dataset)

    assert read == [0, 1, 2]


def test_a_named_job_keeps_its_epoch_and_says_so_once(cluster, caplog):
    stream = Stream()
    dataset = Dataset.from_huggingface(stream)
    far = dataset.distribute("distributed_epoch", cluster.target, job_name="keeps-its-epoch")
    read = []
    for epoch in range(3):
        stream.epoch = epoch
        read += map(int, far)

    assert read == [0, 0, 0]
    assert sum("keeps the epoch" in said for said in caplog.messages) == 1
