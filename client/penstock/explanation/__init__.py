"""Explains why a training loop waits: the operator that limits it, and a remedy.

`looks` has the measurements of a job and of a loop. `verdict` finds the limit and says it in a
sentence. `mesh` reads the counts of a dispatcher. `ask` asks the dispatcher and the iterator.
"""
