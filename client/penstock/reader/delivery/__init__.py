"""From sessions through local operators to the loop, and what is unacked on the way.

`sessions` keeps one session a pass, `iterator` is a session as an operator, `output_block` the
block before the loop, `iterator_state` what ``state()`` gives.
"""
