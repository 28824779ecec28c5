import pytest

from penstock.storage.urls import Address, address_of, prefix_of, shown, without_secrets


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://b/a/ä b.x", Address("s3://b", "a/ä b.x", "s3")),
        ("gcs://b/k", Address("gs://b", "k", "gcs")),
        ("az://c/k", Address("az://c", "k", "az")),
        ("abfs://c@a.net/k", Address("abfs://c@a.net", "k", "abfs")),
        ("https://host:81/a%20b/c", Address("https://host:81", "a b/c", "https")),
    ],
)  # fmt: skip
def test_an_object_of_a_store_has_an_address(url, address):
    assert address_of(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "hf://datasets/a/b/c", "memory://x", "zip://a.txt::s3://b/a.zip", "https://h/a?sign=1",
        "https://u:p@h/a", "s3://b/a//b", "s3://b/../c", "s3://b", "abfs://c/k", "/a/b",
    ],
)  # fmt: skip
def test_other_urls_are_read_by_fsspec(url):
    assert address_of(url) is None


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("s3://b/train/x/k", "train"), ("gs://b/val/k", "val"), ("s3://b/k", ""),
        ("https://host/a/k", ""),
    ],
)  # fmt: skip
def test_an_object_store_counts_requests_by_the_first_part_of_the_key(url, prefix):
    assert prefix_of(address_of(url)) == prefix


def test_a_url_is_shown_without_what_may_be_a_credential():
    assert shown("https://user:pass@host/a.x?X-Amz-Signature=abc&n=1") == "https://host/a.x?..."
    assert shown("https://token@host/a") == "https://host/a"
    assert shown("s3://key:secret@bucket/a") == "s3://bucket/a"
    assert shown("s3://bucket/a?b=c") == "s3://bucket/a?b=c"
    assert shown("abfs://c@a.dfs.core.windows.net/k") == "abfs://c@a.dfs.core.windows.net/k"


def test_what_a_store_says_is_repeated_without_credentials_of_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdef")

    assert without_secrets("it had hush-hush and hf_abcdef") == "it had ... and ..."
