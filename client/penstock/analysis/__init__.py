"""Finds out about a pipeline without running it.

`sharding` finds the split providers of its sources, `index_selection` rewrites operators that
count elements, `element_spec` infers shapes and dtypes, `visitation` says how often an element is
seen. `determinism` says why replayed elements may differ: `function_scan` finds what functions draw
on, by `entropy` (what counts as chance or clock) and `name_resolution` (what names stand for).
"""
