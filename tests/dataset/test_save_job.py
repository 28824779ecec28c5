"""What a `SaveJob` says of its folder, without a dispatcher."""

from penstock.dataset import save_job
from penstock.dataset.dataset import Dataset
from penstock.dataset.save_job import SaveJob
from penstock.errors import DatasetError
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions


def test_a_complete_save_that_the_dispatcher_has_forgotten_is_waited_for(tmp_path, monkeypatch):
    def forgotten(*_):
        raise DatasetError("the dispatcher knows no save")

    monkeypatch.setattr(save_job, "call", forgotten)
    path = str(tmp_path / "saved")
    Dataset.range(9).save(path)
    first = SavedVersions("load", folder_of("load", path)).read(1)

    assert SaveJob(path, first, 9, "nowhere:1", 60.0).wait(60).elements == 9
