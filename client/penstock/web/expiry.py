"""When a service's certificate ends, as a metric: for an alert before its clients have errors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from prometheus_client.metrics_core import Metric

from penstock.credentials.entrance import Entrance
from penstock.credentials.folder import ServiceCredentials
from penstock.web.metrics import gauge


def certificate_end(entrance: Entrance) -> Iterable[Metric]:
    """Yield when the certificate that is shown now ends; nothing where there is none."""
    found = None if entrance.folder is None else entrance.folder.current()
    if isinstance(found, ServiceCredentials):
        yield gauge(
            "penstock_certificate_expiry_timestamp_seconds",
            "Expiry of the service's certificate, in seconds of Unix time",
            _end(found.client.tls.certificate),
        )


@lru_cache(maxsize=2)
def _end(certificate: bytes) -> float:
    from cryptography import x509  # noqa: PLC0415  loaded where there are credentials

    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
