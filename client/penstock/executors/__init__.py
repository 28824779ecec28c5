"""Who calls users' functions: the thread that asks, a pool of threads, or child processes.

`function` is what operators call. For ``map(..., executor="process")`` read `messages` first: what
the two sides say to each other. This side is `process_function` (what an operator calls),
`process` (one child) and `process_pool` (all of them); the other side is `process_main`. Elements
cross in shared memory (`transfer`), as frames of `penstock.frames.frame`.
"""
