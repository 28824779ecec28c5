"""`save_job`: what it refuses before it asks anybody."""

import pytest

from penstock.dataset.dataset import Dataset
from penstock.dataset.iterator import DatasetIterator
from penstock.errors import DatasetError
from penstock.service import save_job


@pytest.mark.parametrize(
    "given", [None, [], iter([1]), Dataset.range(3)], ids=lambda given: type(given).__name__
)
def test_what_is_no_iterator_of_ours_is_refused(given):
    with pytest.raises(DatasetError, match="iterator over a dataset with distribute"):
        save_job(given, "step 1")


def test_an_iterator_that_reads_no_job_is_refused():
    it = iter(Dataset.range(3))

    with pytest.raises(DatasetError, match=r"iterator.state\(\) is all there is"):
        save_job(it, "step 1")
    it.close()


@pytest.mark.parametrize("label", ["", " ", 3, None, "x" * 100_000], ids=str)
def test_a_label_is_a_short_name(label, monkeypatch):
    monkeypatch.setattr(DatasetIterator, "reads_job", True)
    it = iter(Dataset.range(3))

    with pytest.raises(DatasetError, match="label"):
        save_job(it, label)
    it.close()
