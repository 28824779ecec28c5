"""How frames come from a worker to a reader.

`registry` has the transports by name, and says which of them lead to a worker, the nearest first.
`pool` opens one to each worker that is read. `in_process` is the transport for workers in the
reader's own process, `shared_memory` the one for workers on its host. The one for all workers is
in `penstock.wire.worker`.
"""
