import re
from pathlib import Path

import pytest

from protos import write

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


class Fields(write.Described):
    """A message `M` with these fields."""

    def __init__(self, **fields):
        self.kinds, self.of_m = {"M": Fields}, {name: (kind, "") for name, kind in fields.items()}

    def fields(self, _name):
        return self.of_m


def written(standing, **fields):
    """Return the lines of a message with *fields*, which had the lines *standing*."""
    text = write.written(Fields(**fields), "M", "message M {\n" + "\n".join(standing) + "\n}\n")
    return text.splitlines()[2:-1]


def test_the_files_are_what_the_dataclasses_say():
    assert {path: path.read_text() for path in write.FILES} == write.texts()


def test_a_field_keeps_its_number_and_a_new_one_gets_the_first_that_never_was_used():
    standing = ["  int64 a = 1;", "  reserved 2;", "  Split b = 5;"]

    assert written(standing, b="Split", new="string", a="int64", more="bool") == [
        "  Split b = 5;",
        "  string new = 3;",
        "  int64 a = 1;",
        "  bool more = 4;",
        "  reserved 2;",
    ]


def test_the_number_of_a_field_that_is_gone_is_reserved():
    assert written(["  int64 a = 1;", "  repeated bool b = 2;", "  reserved 4, 3;"], a="int64") == [
        "  int64 a = 1;",
        "  reserved 2, 3, 4;",
    ]


def test_a_field_keeps_its_type():
    with pytest.raises(SystemExit, match=r"M.a was int64 and is string: give it another name"):
        written(["  int64 a = 1;"], a="string")
