"""What a worker decides, without I/O. Read `state_machine` first, then `attempt`.

An attempt has `ownership` (which reader has which element), a `frame_buffer`, `checkpoints` and a
`restart_policy`; `streams` picks who gets the next frame, `counters` count.
"""
