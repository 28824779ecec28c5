"""``python -m penstock_health HOST:PORT``: exit code 0 says that it serves."""

from __future__ import annotations

import os
import sys

from penstock_health.probe import probe, tls_in

TIMEOUT = 4.0


def main() -> int:
    """Ask the service that the command line names."""
    if len(sys.argv) != 2:
        print("usage: python -m penstock_health HOST:PORT", file=sys.stderr)  # noqa: T201
        return 2
    try:
        tls = tls_in(os.environ.get("PENSTOCK_CREDENTIALS", ""))
    except OSError as exc:
        print(f"PENSTOCK_CREDENTIALS: {exc}", file=sys.stderr)  # noqa: T201
        return 2
    health = probe(sys.argv[1], TIMEOUT, tls)
    print(health.text)  # noqa: T201
    return 0 if health.serves else 1


if __name__ == "__main__":
    sys.exit(main())
