"""The engine: what turns a graph into elements, a block at a time, with state.

Read `iterator` first: it is the contract that every operator keeps. `context` is what a running
operator may know of its surroundings, `seeds` where chance comes from, `root` what users hold.
"""
