"""Numbers that are found while a pipeline runs, where users say `AUTOTUNE`.

`threads` and `buffers` decide and have no clock; `meter` measures for `threads`, `budget` is what
all operators of a run may use, `tuning` what the options allow one run. Nothing of it is in a
state or a fingerprint: the numbers change how fast elements come, never which.
"""
