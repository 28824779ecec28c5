"""Who started or forked whom, for tests that look at processes."""

from contextlib import suppress
from pathlib import Path


def parent(pid):
    """Return the process that *pid* is a child of."""
    return int(_fields(pid)[1])


def below(pid):
    """Return the processes that are there for *pid*: it started them, or had them forked."""
    owners = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields, words = _fields(entry.name), (entry / "cmdline").read_bytes().split(b"\0")
            if fields[0] != "Z":
                owners[int(entry.name)] = {int(fields[1])}
                if b"--worker" in words:  # a runner says whose it is, wherever it was forked
                    owners[int(entry.name)].add(int(words[words.index(b"--worker") + 1]))
    found, before = {pid}, 0
    while len(found) > before:
        before = len(found)
        found |= {each for each, of in owners.items() if of & found}
    return found - {pid}


def _fields(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
