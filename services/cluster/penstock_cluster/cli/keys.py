"""``penstock keys``: credentials for a cluster that listens beyond loopback."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from penstock.credentials.access import AccessRole
from penstock.credentials.token import seconds_of
from penstock_cluster.cli.client import explained, screen

app = typer.Typer(
    name="keys",
    help="Make credentials for a cluster: a CA, certificates and tokens.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(help="folder of the credentials", metavar="DIR")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(help="a name or address of the dispatcher; repeatable"),
]


@app.command()
@explained
def init(folder: Folder, host: Hosts = None) -> None:
    """Make a CA and a signing key in DIR/authority, and a folder of credentials for each role."""
    from penstock.credentials import authority  # noqa: PLC0415  it loads `cryptography`

    _show(authority.init(folder, tuple(host or ()), datetime.now(UTC)))
    screen.print(f"{folder / authority.OWN} makes more: keep it where no service runs")


@app.command()
@explained
def token(
    folder: Folder,
    role: Annotated[AccessRole, typer.Option(help="what its owner may do")],
    expires: Annotated[
        str, typer.Option(help="how long it is valid, such as 30d, 12h or 90m")
    ] = "30d",
    name: Annotated[
        str | None, typer.Option(help="name of its owner in logs; by default the role")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="a folder to make, with a certificate and a token"),
    ] = None,
) -> None:
    """Print a token for a person or a job, or make a folder of credentials with --into.

    A token is enough for HTTP. All other calls also need a certificate of the same role.
    """
    from penstock.credentials import authority  # noqa: PLC0415  as above

    lasts, whom = seconds_of(expires), name or role.value
    if into is not None:
        authority.personal(folder, into, role, whom, datetime.now(UTC), lasts)
        _show([into], role.value)
        return
    made = authority.token(folder, role, whom, time.time(), lasts)
    print(made)  # noqa: T201  as it is, not as rich would fold it


@app.command()
@explained
def renew(folder: Folder, host: Hosts = None) -> None:
    """Renew the certificates and tokens of all roles with the existing keys."""
    from penstock.credentials import authority  # noqa: PLC0415  as above

    _show(authority.renew(folder, tuple(host or ()), datetime.now(UTC)))


@app.command()
@explained
def rotate(folder: Folder) -> None:
    """Replace the CA and the signing key: the first run trusts new keys, the second uses them."""
    from penstock.credentials import authority  # noqa: PLC0415  as above

    folders, in_use = authority.rotate(folder, datetime.now(UTC))
    _show(folders)
    screen.print(
        "the new keys are in use; the old ones are trusted until the next time"
        if in_use
        else "the new keys are trusted; give the folders to all processes, and do this again"
    )


def _show(folders: list[Path], role: str | None = None) -> None:
    for folder in folders:
        whose = role or folder.name
        screen.print(f"{folder}  PENSTOCK_CREDENTIALS of a {whose}", soft_wrap=True)
