"""Finds faults in a process's certificate after a service hung up, which gives no reason."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from penstock.credentials.folder import CA, CERTIFICATE, Tls, unfit_pair

_REMEDY = "make another one with `penstock keys renew`"


def trouble(tls: Tls, now: float) -> str:
    """Return why services refuse the certificate in *tls* at *now*; nothing if it looks good.

    Args:
        tls: what connections are made with.
        now: seconds of Unix time.
    """
    from cryptography import x509  # noqa: PLC0415  who has no trouble needs none
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    if unfit := unfit_pair(tls):
        return f"of this process's credentials, {unfit}"
    mine = x509.load_pem_x509_certificate(tls.certificate)
    clock = datetime.fromtimestamp(now, UTC)
    said = f"the clock of this host says {clock:%Y-%m-%d %H:%M:%S} UTC"
    if clock > mine.not_valid_after_utc:
        return (
            f"this process's certificate expired {mine.not_valid_after_utc:%Y-%m-%d %H:%M:%S} "
            f"UTC, and {said}; {_REMEDY}, or set the clock"
        )
    if clock < mine.not_valid_before_utc:
        return (
            "this process's certificate is good from "
            f"{mine.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC on, and {said}: this clock, or the "
            "one where it was made, is off; set it"
        )
    for authority in x509.load_pem_x509_certificates(tls.ca):
        with suppress(ValueError, TypeError, InvalidSignature):
            mine.verify_directly_issued_by(authority)
            return ""
    return (
        f"this process's {CERTIFICATE} was made by none of the CAs in its {CA}: it is of another "
        f"cluster, or of a CA that was taken out of use; {_REMEDY}"
    )
