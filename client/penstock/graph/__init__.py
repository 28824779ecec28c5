"""A pipeline as data: `node` is an operator with its inputs, `traversal` walks and rewrites.

`run` is the contract between the training loop's iterator and one run of a pipeline, here or as a
job. A graph is never changed: operators put a new node on top of others.
"""
