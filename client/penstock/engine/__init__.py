"""The contract of a running operator: it turns inputs into elements, a block at a time, with state.

Read `iterator` first: it is the contract that every operator keeps.

`context`: the run, seeds and limits that a running operator knows.
`splits`: a source's position in its split logs.
`seeds`, `draws`: seeds, and the random numbers and orders that they give.
`block_size`: how many elements to ask of an input at once.
`unacked`: which elements are unacked, by the marks.
"""
