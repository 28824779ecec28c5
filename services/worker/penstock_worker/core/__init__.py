"""What a worker decides, without I/O. Read `state_machine` first, then `attempt`.

An attempt has a `delivery_policy`, `checkpoints`, a `runner_history`, and `shares` of its worker's
memory and slots; `counters` count. A policy has a `frame_buffer`. It has groups of
`sharing_readers`, each with its `ownership` (which reader has which element).
"""
