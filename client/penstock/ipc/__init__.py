"""Child processes, for executors and for the worker's runners.

- `framing`: messages on a socket. `shared_memory`: a file in memory.
- `message_line`: messages and files on a socket, for an event loop.
- `idle_pool`: the idle children that wait for their next use.
- `child`: the environment of a child, its name in ``ps``, and its end with its parent.
- `fork_server`: forks processes with loaded modules; `fork_main` runs it. `fork_client`: starts and
  asks it.
"""
