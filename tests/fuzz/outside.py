"""What comes from files, from the environment, from strangers at a socket: samples, and readers."""

import asyncio
import atexit
import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import tempfile
import zlib
from pathlib import Path

import google_crc32c
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fuzz.mutations import damaged, repacked, twisted
from penstock import Dataset, cluster_environment
from penstock.credentials import http
from penstock.credentials.access import AccessRole, check
from penstock.credentials.token import TrustedKeys, issue
from penstock.errors import ConfigError, PenstockError
from penstock.ipc.framing import pack
from penstock.ipc.message_line import MessageLine
from penstock.protocol import tensorflow as tf
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.transport.link_messages import (
    AckStream,
    EndStream,
    FromReader,
    FromWorker,
    GiveBack,
    Hello,
    Mapped,
    Memory,
    OpenStream,
    Said,
)
from penstock.web.metrics import content_type_for
from penstock.wire._pb import tensorflow_pb2
from penstock.wire.codec import form

WHERE = "FUZZ_FOLDER"
"""A variable: a folder whose owner removes it, since libFuzzer ends a process without `atexit`."""

FOLDER = Path(tempfile.mkdtemp(prefix="penstock-fuzz-", dir=os.environ.get(WHERE, "/dev/shm")))
"""Files that are read, in memory: thousands a second."""
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def _file(name, data):
    file = FOLDER / name
    file.write_bytes(data)
    return file


# --- files of samples ---


def _record(body):
    length = struct.pack("<Q", len(body))
    return length + _masked(length) + body + _masked(body)


def _masked(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


RECORDS = [b"".join(map(_record, [b"", b"one", b"x" * 300])), _record(bytes(range(256)) * 9)]
PACKED = [zlib.compress(one) for one in RECORDS]


def make_records(rng):
    kind = rng.choice([None, None, "ZLIB"])
    samples = RECORDS if kind is None else PACKED
    data = damaged(rng.choice(samples), rng, rng.choice(samples))
    if kind is not None and rng.random() < 0.5:  # whole outside, damaged within
        data = zlib.compress(damaged(rng.choice(RECORDS), rng, rng.choice(RECORDS)))
    return kind, data


def read_records(given):
    kind, data = given
    for one in Dataset.tfrecords(_file("records", data), compression_type=kind):
        assert isinstance(one, bytes)


TABLES = [
    b'a,b,c\n1,2.5,x\n-3,,"y, z"\n4,1e9,\xc3\xbc\n',
    b'a,b\n"multi\nline",0x10\n1,2\n',
    b"a;b\r\n1;2\r\n3;4\r\n",
]


def make_csv(rng):
    return damaged(rng.choice(TABLES), rng, rng.choice(TABLES))


def read_csv(data):
    for row in Dataset.csv(_file("table.csv", data)):
        assert isinstance(row, dict)


def read_lines(data):
    for line in Dataset.text_lines(_file("lines.txt", data)):
        assert isinstance(line, str)


def _caches():
    for number, dataset in enumerate(
        (
            Dataset.range(50).map(lambda x: {"x": x, "t": str(x)}),
            Dataset.from_tensors(np.zeros((3, 4), np.float32)).repeat(3),
        )
    ):
        name = FOLDER / f"cache{number}"
        cached = dataset.cache(str(name))
        list(cached)
        file = next(found for found in FOLDER.glob(f"cache{number}*") if found.is_file())
        yield cached, file, file.read_bytes()


CACHES = list(_caches())


def make_cache(rng):
    number = rng.randrange(len(CACHES))
    return number, damaged(CACHES[number][2], rng, rng.choice(CACHES)[2])


def read_cache(given):
    number, data = given
    cached, file, whole = CACHES[number]
    file.write_bytes(data)
    try:
        list(cached)
    finally:
        file.write_bytes(whole)


# --- who calls ---

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEYS = TrustedKeys([KEY.public_key()])
NOW = 1_800_000_000.0
TOKENS = [
    issue(KEY, role, name, now=NOW, lasts=60.0).encode()
    for role, name in ((AccessRole.READER, "ann"), (AccessRole.OPERATOR, "ü" * 40))
]
FORGED = [
    issue(
        Ed25519PrivateKey.from_private_bytes(bytes(32)),
        AccessRole.TRAINER,
        "eve",
        now=NOW,
        lasts=60.0,
    ).encode()
]


def make_token(rng):
    samples = TOKENS + FORGED
    return damaged(rng.choice(samples), rng, rng.choice(samples))


def read_token(data):
    text = data.decode("latin-1")
    identity = KEYS.identity(text, NOW)
    # Whatever was accepted says what was signed.
    assert identity.name in {"reader 'ann'", f"operator '{'ü' * 40}'"}


# --- the environment of a launcher ---

PLACES = [
    {
        "TF_CONFIG": json.dumps(
            {
                "cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": {"1": "d:1"}},
                "task": {"type": "worker", "index": 1, "trial": "t"},
            }
        )
    },
    {
        "CLUSTER_SPEC": json.dumps(
            {
                "cluster": {"workerpool0": ["a:1"], "workerpool1": ["b:1"]},
                "task": {"type": "workerpool1", "index": 0},
                "open_ports": [3000],
            }
        )
    },
    {
        "SLURM_JOB_ID": "7",
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "8",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_JOB_NODELIST": "node[01-03,07],gpu5",
        "SLURM_STEP_NODELIST": "node[01-03,07]",
        "SLURM_NTASKS_PER_NODE": "2(x4)",
    },
    {
        "RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "29500",
        "GROUP_RANK": "0",
    },
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
    {"JOB_COMPLETION_INDEX": "3", "LWS_LEADER_ADDRESS": "lead.svc", "LWS_GROUP_SIZE": "4"},
]


def make_place(rng):
    env = dict(rng.choice(PLACES))
    if rng.random() < 0.2:
        env |= rng.choice(PLACES)
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(env))
        text = env[name]
        if text.startswith("{") and rng.random() < 0.7:
            with contextlib.suppress(TypeError, ValueError, RecursionError, OverflowError):
                text = json.dumps(twisted(json.loads(text), rng, [1]))
        else:
            text = damaged(text.encode("utf-8", "surrogateescape"), rng, b"0").decode(
                "utf-8", "surrogateescape"
            )
        env[name] = text[: 1 << 16].replace("\0", "")
    return env


def read_place(env):
    with contextlib.suppress(ConfigError):
        place = cluster_environment(env)
        assert place.index >= 0
        place.explain()


# --- a socket within the host ---

FROM_READER = [
    pack(Hello("boot", "token")),
    pack(OpenStream(1, Subscribe(1, 5, 1, 2, AckedSet(3), RangeSet(((4, 9),)), 1 << 20))),
    pack(AckStream(1, Ack(RangeSet(((1, 5),)), 100))),
    pack(Mapped(1, "why")),
    pack(GiveBack((1, 2, 3))),
    pack(EndStream(1)),
]
FROM_WORKER = [pack(Memory(1, 1 << 20, 77)), pack(Said(1, b"body"))]


def make_said(rng):
    kind, samples = rng.choice([(FromReader, FROM_READER), (FromWorker, FROM_WORKER)])
    whole = [bytes(one) for one in samples]
    if rng.random() < 0.5:  # a whole frame around a damaged message
        body = repacked(rng.choice(whole)[8:], rng, rng.choice(whole)[8:])
        return kind, struct.pack("<Q", len(body)) + body
    return kind, damaged(b"".join(rng.sample(whole, len(whole))), rng, rng.choice(whole))


def read_said(given):
    kind, data = given
    asyncio.run(_over_a_line(kind, data))


async def _over_a_line(kind, data):
    """Send *data* to a line that expects *kind*: it hangs up, or hears messages."""
    near, far = socket.socketpair()
    gone, heard = asyncio.Event(), []
    line = MessageLine(far, kind, heard.append, lambda _why: gone.set(), most=1 << 20)
    near.setblocking(False)
    with near:
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            await asyncio.get_running_loop().sock_sendall(near, data)
            near.shutdown(socket.SHUT_WR)
        await gone.wait()
    line.close()


# --- what TensorFlow's clients say ---

TF_MESSAGES = [
    tf.MetadataRequest("train"),
    tf.JobRequest("train", tf.ProcessingMode(1), "job", None, False, 0),
    tf.ElementRequest(7),
    tf.HeartbeatRequest(1),
    tf.ReleaseRequest(1),
]
TF_FORMS = [
    (form(type(one), package=tensorflow_pb2.DESCRIPTOR.package), one) for one in TF_MESSAGES
]
TF_BYTES = [how.encode(one) for how, one in TF_FORMS]


def make_tensorflow(rng):
    number = rng.randrange(len(TF_FORMS))
    return number, damaged(TF_BYTES[number], rng, rng.choice(TF_BYTES))


def read_tensorflow(given):
    number, data = given
    TF_FORMS[number][0].decode(data)


# --- who asks by HTTP ---


class Tokens:
    """Admits whom a token of `KEY` names."""

    def admit(self, path, shown):
        identity = KEYS.identity(shown, NOW)
        check(path, identity)
        return identity

    certificates = False

    def confirm(self, identity, names):
        raise AssertionError("there are no certificates by HTTP")


_PAIR = base64.b64encode(b"ann:" + TOKENS[1]).decode()
REQUESTS = [
    "\n".join(lines).encode()
    for lines in (
        ("GET", "/metrics", f"Bearer {TOKENS[1].decode()}", "application/openmetrics-text; q=0.5"),
        ("HEAD", "/", f"Basic {_PAIR}", "text/html,*/*;q=0.8"),
        ("GET", "/?token=penstock1.x", "", "text/plain;version=1.0.0;escaping=allow-utf-8"),
        ("POST", "/jobs/a", f"Bearer {FORGED[0].decode()}", "*/*"),
    )
]


def make_request(rng):
    return damaged(rng.choice(REQUESTS), rng, rng.choice(REQUESTS))


def read_request(data):
    method, target, shown, accept = (data.decode("latin-1").split("\n") + [""] * 4)[:4]
    if method not in {"GET", "HEAD", "POST"}:  # the server answers others itself
        method = "GET"
    assert content_type_for(accept)
    try:
        http.admit(Tokens(), method, target, shown)
    except PenstockError as exc:
        said = http.refusal(exc)
        assert said.status in {401, 403}
        assert "penstock1." not in said.text
        raise
