"""Preemption: all trainers stop at one agreed step, save, and end.

`agreement` decides in the dispatcher, `handler` is what a training loop holds, `meeting` its word
with the dispatcher; `watchers` ask platforms whether this machine is to be taken away.
"""
