"""Child processes, for executors and for the worker's runners.

- `framing`: messages on a socket. `shared_memory`: a file in memory.
- `idle_pool`: the idle children that wait for their next use.
- `child`: the environment of a child, which ends with its parent.
- `fork_server`: forks processes with loaded modules. `fork_door`: its client.
- `command_line`: the name of a process in ``ps``.
"""
