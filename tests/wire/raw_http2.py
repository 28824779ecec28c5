"""HTTP/2 as bytes, for callers that break its manners: gRPC's own client always reads."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _CONTINUATION = 0, 1, 4, 9
_LARGEST = 1 << 14
_INITIAL_WINDOW = 4


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def settings(window=None):
    """Return the first frame of a client, which lets the server send *window* bytes a stream."""
    body = b"" if window is None else struct.pack(">HI", _INITIAL_WINDOW, window)
    return frame(_SETTINGS, 0, 0, body)


ACK = frame(_SETTINGS, 1, 0)
"""Says that the server's settings hold from now on."""


def _literal(name, value):
    """Return a header that no table remembers, in full."""
    out = b"\0"
    for text in (name.encode(), value.encode()):
        length = len(text)
        out += bytes((length,)) if length < 127 else b"\x7f" + _rest(length - 127)
        out += text
    return out


def _rest(number):
    out = b""
    while number >= 128:
        out, number = out + bytes((number % 128 | 128,)), number >> 7
    return out + bytes((number,))


def call(stream, path, message=b"", *, ends=True, token="", gzip=False, more=()):
    """Return the frames that call the method at *path* with *message*, packed before if *gzip*.

    *more* are headers beside those that each call has.
    """
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    if token:
        headers.append(("penstock-token", token))
    if gzip:
        headers.append(("grpc-encoding", "gzip"))
    block = b"".join(_literal(*header) for header in [*headers, *more])
    return _headers(stream, block) + data(stream, message, ends=ends, gzip=gzip)


def _headers(stream, block):
    """Return the frames of a *block* of headers: one has 16 KB at most."""
    parts = [block[at : at + _LARGEST] for at in range(0, len(block), _LARGEST)]
    kinds = [_HEADERS, *[_CONTINUATION] * (len(parts) - 1)]
    ends = [0] * (len(parts) - 1) + [4]
    return b"".join(map(frame, kinds, ends, [stream] * len(parts), parts))


def data(stream, message, *, ends=False, gzip=False):
    """Return the frames of one more *message* of a stream."""
    body = struct.pack(">BI", int(gzip), len(message)) + message
    parts = [body[at : at + _LARGEST] for at in range(0, len(body), _LARGEST)]
    last = [0] * (len(parts) - 1) + [int(ends)]
    return b"".join(frame(_DATA, end, stream, part) for end, part in zip(last, parts, strict=True))
