"""The common part of all frameworks' loaders: placing elements ahead of the loop, passes, states.

`placed` is the last operator of a pipeline; it makes a framework's own arrays. `loader` reads it
pass after pass, and has its saved state.
"""
