"""What a running operator is: it turns inputs into elements, a block at a time, with state.

Read `iterator` first: it is the contract that every operator keeps. `context` is what a running
operator may know of its surroundings, `splits` a source's place in the splits it draws, `seeds`
where chance comes from, `unacked` what marks say of elements that no loop has yet.
"""
