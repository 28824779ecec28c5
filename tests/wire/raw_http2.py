"""HTTP/2 as bytes, for callers that break its manners: gRPC's own client always reads."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_INITIAL_WINDOW = 4


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def settings(window=None):
    """Return the first frame of a client, which lets the server send *window* bytes a stream."""
    body = b"" if window is None else struct.pack(">HI", _INITIAL_WINDOW, window)
    return frame(_SETTINGS, 0, 0, body)


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


def call(stream, path, message=b"", *, ends=True, token=""):
    """Return the frames that call the method at *path* with *message*."""
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
    block = b"".join(_literal(*header) for header in headers)
    body = struct.pack(">BI", 0, len(message)) + message
    return frame(_HEADERS, 4, stream, block) + frame(_DATA, int(ends), stream, body)
