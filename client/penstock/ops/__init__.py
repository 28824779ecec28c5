"""The operators: the node (what the user asked for) and the iterator (how it runs) of each.

A file has one operator, or two that work alike. Every file has the same parts in the same order:
what the operator yields and the shape of its state, the node, the iterator. `Node.open` makes the
iterator; the contract is in `penstock.engine.iterator`.
"""
