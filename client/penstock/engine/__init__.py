"""The contract of a running operator: it turns inputs into elements, a block at a time, with state.

Read `iterator` first: it is the contract that every operator keeps. `context` is what a running
operator knows of the run that it is part of, `splits` a source's position in its split logs,
`seeds` where chance comes from, `draws` what is drawn by it, `block_size` how much is asked of an
input at once, `unacked` which elements marks call unacked, `state_values` elements inside states.
"""
