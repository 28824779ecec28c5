"""What commands print, as text, and values that they print."""

from rich.console import Console

from penstock.protocol.types import PROTOCOL, Versions
from penstock_dispatcher.core.stats import WorkerSummary

VERSIONS = Versions(PROTOCOL, "3.11.2", "0.1.0")


def shown(what, width=160, height=None):
    """Return what a screen of this size shows, line by line, without blanks at their ends."""
    console = Console(width=width, height=height, highlight=False)
    with console.capture() as captured:
        console.print(what)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def worker(address, silent=0.1, *, connected=True, draining=False, versions=VERSIONS):
    """Return what a dispatcher says of a worker."""
    stats = {"elements_made": 12_345_678, "bytes_sent": 10**12, "buffers": [{"nbytes": 64 << 20}]}
    return WorkerSummary(address, 1, silent, connected, draining, (1,), stats, 0, versions)
