"""What `AUTOTUNE` stands for: numbers that are found while a pipeline runs.

`threads` and `buffers` decide and have no clock; `budget` is what all may use, `tuning` what the
options allow one run. Nothing of it is in a state or a fingerprint: the numbers change how fast
elements come, never which.
"""
