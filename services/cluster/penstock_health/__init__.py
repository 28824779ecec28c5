"""Ask any service of Penstock whether it serves: ``python -m penstock_health HOST:PORT``.

For callers that ask every few seconds, as containers' health checks do: it imports gRPC and
nothing else, so that a question costs a tenth of what the command ``penstock`` takes to load.
"""

from penstock_health.probe import HealthReply, probe

__all__ = ["HealthReply", "probe"]
