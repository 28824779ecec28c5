"""Jobs whose files lie in an object store: credentials, counts and faults of real processes."""

import json
import time

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import TransformError
from tests.mesh.worker_status import status_of
from tests.storage.stand_in import served

COUNT = 3000


@pytest.fixture
def bucket(monkeypatch):
    with served() as made:
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        for part in range(3):
            numbers = range(part * COUNT // 3, (part + 1) * COUNT // 3)
            text = "".join(json.dumps({"n": n}) + "\n" for n in numbers)
            made.objects[f"data/{part}.jsonl"] = text.encode()
        yield made


def test_workers_read_objects_with_the_credentials_of_their_environment_and_name_none(
    bucket, another
):
    faults = {1: "503", 3: "cut"}
    bucket.fault = lambda number: faults.get(number, "")
    with another(workers=2) as cluster:
        far = Dataset.json_lines("s3://data/*.jsonl").distribute(
            "distributed_epoch", cluster.target
        )

        assert sorted(int(e["n"]) for e in far) == list(range(COUNT))

        assert bucket.authorized == {"AKIDAKIDAKID"}
        files = list(cluster.work_dir.rglob("*"))
        assert files
        for path in files:
            assert not path.is_file() or b"very-secret-key" not in path.read_bytes()
        deadline = time.monotonic() + 20
        while True:
            counts = [status_of(worker.address)["storage"] for worker in cluster.workers]
            if sum(one["retries"] for one in counts) == 2:
                break
            assert time.monotonic() < deadline, counts
            time.sleep(0.05)
        assert sum(one["nbytes"] for one in counts) == sum(map(len, bucket.objects.values()))
        assert sum(one["slow_downs"] for one in counts) == 1

        bucket.fault = lambda _: "403"
        with pytest.raises(TransformError, match=r"no permission: s3://data/\d.jsonl") as caught:
            list(far)
        assert "AccessDenied" in str(caught.value)
        assert "very-secret-key" not in str(caught.value)
