"""Damage: valid bytes, changed as links, disks, other versions and strangers change them."""

import msgspec

EDGES = [0, 1, 2, 63, 64, 127, 128, 255, 256, 8192, 8193, (1 << 15) - 1, 1 << 16, (1 << 31) - 1]
EDGES += [1 << 31, (1 << 32) - 1, 10**12, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
STRANGE = [
    None,
    True,
    False,
    -1,
    -(1 << 63),
    *EDGES,
    1.5,
    float("nan"),
    float("inf"),
    -0.0,
    "",
    "a",
]
STRANGE += [
    "\x1b[2J",
    "é" * 40,
    "x" * 2000,
    b"",
    b"\xff" * 9,
    [],
    {},
    [[]],
    [0],
    {"a": 0},
    ["tuple"],
]
NUMBERS = "0123456789"


def damaged(data, rng, other):
    """Return *data* after one to three changes; *other* is another valid sample."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        data = rng.choice(BYTEWISE)(bytes(data), rng, other)
    return data[: 1 << 20]


def flip(data, rng, other):
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 4])):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def overwrite(data, rng, other):
    out = bytearray(data)
    if out:
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def truncate(data, rng, other):
    return data[: rng.randrange(len(data) + 1)]


def drop(data, rng, other):
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randrange(1, 9) :]


def splice(data, rng, other):
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def repeat(data, rng, other):
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.randrange(1, 65)]
    return data[:at] + piece * rng.choice([2, 3, 100]) + data[at:]


def insert(data, rng, other):
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 17)) + data[at:]


def lengthen(data, rng, other):
    """Overwrite a few bytes with a number at an edge, as a length would be."""
    at, width = rng.randrange(len(data) + 1), rng.choice([1, 2, 4, 8])
    number = rng.choice(EDGES) & ((1 << 8 * width) - 1)
    return data[:at] + number.to_bytes(width, rng.choice(["big", "little"])) + data[at + width :]


def varint(data, rng, other):
    """Insert a number as protobuf writes it, perhaps one without end."""
    number, out = rng.choice(EDGES), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    at = rng.randrange(len(data) + 1)
    return data[:at] + (bytes(out) if rng.random() < 0.9 else b"\x80" * 4000) + data[at + 1 :]


def swap_field(data, rng, other):
    """Give a byte another protobuf field's number, or another wire type."""
    out = bytearray(data)
    if out:
        at = rng.randrange(len(out))
        out[at] = (rng.randrange(1, 16) << 3) | rng.choice([0, 1, 2, 3, 4, 5, out[at] & 7])
    return bytes(out)


def nest(data, rng, other):
    """Put something nested far too deep somewhere."""
    at, depth = rng.randrange(len(data) + 1), rng.choice([30, 1000, 100_000])
    opening = rng.choice([b"\x91", b"\x92\xa5tuple\x91", b"[", b'{"a":', b"\x81\xa1a", b"\x0a\x7f"])
    return data[:at] + opening * depth + data[at:]


BYTEWISE = [flip, flip, flip, overwrite, truncate, drop, splice, repeat, insert, lengthen, lengthen]
BYTEWISE += [varint, swap_field, swap_field, nest]


def twisted(plain, rng, other):
    """Return *plain* data (as msgpack or JSON has them) with a few parts exchanged for others."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        plain = _twist(plain, rng, other, rng.random())
    return plain


def _twist(plain, rng, other, where):
    if isinstance(plain, dict) and plain and rng.random() < 0.85:
        key = rng.choice(list(plain))
        changed = dict(plain)
        match rng.randrange(12):
            case 0:
                del changed[key]
            case 1:
                changed[rng.choice(["a", "v", "state", "x" * 2000, key + "s"])] = changed[key]
            case _:
                changed[key] = _twist(plain[key], rng, other, where)
        return changed
    if isinstance(plain, list) and plain and rng.random() < 0.85:
        at, changed = rng.randrange(len(plain)), list(plain)
        match rng.randrange(12):
            case 0:
                del changed[at]
            case 1:
                changed.insert(at, changed[at])
            case 2:
                changed[at : at + 1] = changed[at : at + 1] * rng.choice([3, 1000])
            case 3:
                rng.shuffle(changed)
            case _:
                changed[at] = _twist(plain[at], rng, other, where)
        return changed
    match rng.randrange(10):
        case 0:
            return _deep(rng)
        case 1:
            return other
        case 2 if isinstance(plain, int):
            return plain + rng.choice([-1, 1, -plain - 1, 1 << 40])
        case 3 if isinstance(plain, str):
            return rng.choice([plain[:-1], plain + "x", plain.encode("utf-8", "surrogatepass")])
    return rng.choice(STRANGE)


def _deep(rng):
    out = rng.choice(STRANGE)
    for _ in range(rng.choice([3, 60, 3000])):
        out = rng.choice([[out], {"a": out}, [out, 1]])
    return out


def repacked(data, rng, other):
    """Return *data*, a msgpack value, with parts exchanged for others."""
    try:
        return msgspec.msgpack.encode(
            twisted(msgspec.msgpack.decode(data), rng, msgspec.msgpack.decode(other))
        )
    except (OverflowError, RecursionError, TypeError, ValueError):
        return damaged(data, rng, other)
