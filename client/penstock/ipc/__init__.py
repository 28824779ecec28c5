"""Child processes, for executors and the worker's runners alike.

`framing` is messages on a socket, `shared_memory` a file in memory, `idle_pool` which children
wait for the next use, `child` the environment of a child and that it ends with its parent.
`fork_server` forks processes that have everything loaded, for who is at its `fork_door`; what
``ps`` shows of them is `command_line`.
"""
