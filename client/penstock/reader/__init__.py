"""The training side of `distribute`: from its arguments to elements for a loop.

`distribute` checks and puts a `node` over a pipeline; `job_run` is one run of it in a training
loop. `delivery` holds what is between sessions and the loop, `session` one reader at work, `core`
decides.
"""
