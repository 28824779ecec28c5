"""What is slow: a loop's wait, traced to an operator, and what would hide it.

`looks` is what was seen of a job and of a loop; `verdict` decides what limits it, and says so in a
sentence; `mesh` reads what a dispatcher counts; `ask` asks it, and the iterator.
"""
