"""An object store whose API others wrote: S3 as moto serves it."""

import json

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, FileChanged
from penstock.storage import fetching, retries, stores

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto.server")


@pytest.fixture
def s3(monkeypatch):
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "testing-key"),
        ("AWS_SECRET_ACCESS_KEY", "testing-secret"),
        ("AWS_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(retries, "INFO_PATIENCE", 0.2)
    stores.opened.cache_clear()
    fetching._forget()
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=f"http://{host}:{port}")
    client.create_bucket(Bucket="data")
    yield client
    client.close()
    server.stop()
    stores.opened.cache_clear()
    fetching._forget()


def put(s3, key, numbers):
    text = "".join(json.dumps({"n": n}) + "\n" for n in numbers)
    s3.put_object(Bucket="data", Key=key, Body=text.encode())


@pytest.mark.filterwarnings("default")  # of the server
def test_objects_are_found_read_and_pinned(s3):
    put(s3, "train/a b.jsonl", range(5000))
    put(s3, "train/ä+1.jsonl", range(5000, 9000))
    put(s3, "train/deep/no.jsonl", range(3))
    lines = Dataset.json_lines("s3://data/train/*.jsonl")

    assert [int(e["n"]) for e in lines] == list(range(9000))
    assert [int(e["n"]) for e in Dataset.json_lines("s3://data/train/ä+1.jsonl")][0] == 5000

    put(s3, "train/ö.jsonl", range(9))
    iterator = iter(lines)
    next(iterator)  # and the next file may be here already
    put(s3, "train/ö.jsonl", range(9, 13_000))
    with pytest.raises(FileChanged, match=r"s3://data/train/ö.jsonl was changed"):
        list(iterator)


@pytest.mark.filterwarnings("default")  # of the server
def test_a_bucket_that_does_not_exist_is_told(s3):
    with pytest.raises(DatasetError, match="NoSuchBucket|no file matches"):
        list(Dataset.json_lines("s3://none/*.jsonl"))
