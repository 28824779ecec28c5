"""Runners: processes beside the worker that run users' code and write frames.

Read `orders` first: what worker and runner say to each other. The worker's side is `pool`, with
`handle` (one runner) and `nursery` (which starts the zygote). The zygote (`zygote`, told what to
do in `packets`) has everything loaded but gRPC, and forks; the fork becomes a runner in `child`.
The runner's side is `main`, with `desk` (the socket), `run` (the engine at work), `frames`,
`clerk`, `states` and `failure`. Frames go through shared memory, the `arena`.
"""
