"""The one package that sees gRPC and protobuf.

Outside of it, calls take and return the dataclasses of `penstock.protocol` and raise the errors of
`penstock.errors`. Read `dispatcher` and `worker` first: what the two services can do, and a client
for each. `connection` is a channel or a port, `rpc` a method, `stream` its two directions,
`status` its errors, `codec` its messages. `make protos` writes `protos/` from the dataclasses, and
`_pb` from `protos/`.
"""

import os

# gRPC looks here once, when it is imported. It would report closed connections and taken ports on
# stderr, in lines of its own; Penstock's error says the same.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# A process that reads may be forked, by a framework's own data loader, say. The child cannot use
# what the parent has open, and gRPC's attempts to make that possible crash about one child in
# five while streams are under way. Without them a child does well that leaves gRPC alone.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
