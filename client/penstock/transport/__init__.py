"""How frames come from a worker to a reader.

`registry` has the transports there are, by name; `choice` says which of them lead to a worker, the
nearest first; `pool` opens one to each worker that is read. `over_grpc` is the transport for all
workers, `in_process` the one for workers in the reader's own process, `shared_memory` the one for
workers on its host.
"""
