"""Runners: processes beside the worker that run users' code and write frames.

Read `messages` first: what worker and runner say to each other. The worker has `pool`, with
`process` (one runner) and `fork_client` (which starts the zygote). The zygote (`zygote`, whose
messages are `fork_protocol`) has everything loaded but gRPC, and forks; the fork becomes a runner
in `fork_child`. In the runner are `main`, `connection` (the socket), `engine_loop` (a run),
`frame_writer`, `flush_thread`, `checkpointer` and `failures`. Frames go through shared memory, the
`arena`.
"""
