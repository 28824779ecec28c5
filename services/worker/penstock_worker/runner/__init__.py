"""Runners: processes beside the worker that run users' code and write frames.

Read `messages` first: what worker and runner say to each other. The worker has `pool`, with
`process` (one runner) and `fork` (which asks a fork server for runners). The fork server has
everything loaded but gRPC; a fork becomes a runner in `fork_child`. In the runner are `main`,
`connection` (the socket), `engine_loop` (a run), `frame_writer`, `flush_thread`, `checkpointer` and
`failures`. Frames go through shared memory, the `arena`.
"""
