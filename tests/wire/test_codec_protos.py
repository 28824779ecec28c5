import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = sorted((ROOT / "protos").glob("*.proto"))
GENERATED = sorted((ROOT / "client/penstock/wire/_pb").glob("*_pb2.py"))


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name)
def test_each_service_method_message_and_enum_has_its_sentence(path):
    lines = path.read_text().splitlines()
    bare = [
        line.strip()
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *(service|rpc|message|enum) ", line) and not before.strip().startswith("//")
    ]

    assert not bare


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_code_loads_with_the_oldest_protobuf_allowed(path):
    versions = re.search(r"Protobuf Python Version: (\d+)\.(\d+)", path.read_text())

    assert tuple(map(int, versions.groups())) <= (5, 27)


def test_each_proto_has_its_generated_code():
    assert {path.stem for path in PROTOS} == {path.stem.removesuffix("_pb2") for path in GENERATED}
