"""What the loaders of all frameworks share: placing elements ahead of the loop, passes, states.

`placed` is the operator that makes a framework's own arrays, behind everything else in a pipeline;
`loader` reads it pass after pass; `loader_state` is what is saved of that.
"""
