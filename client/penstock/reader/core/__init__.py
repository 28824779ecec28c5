"""The reader's mind: what it holds, what it may hand out, and what it says about both.

The reader is the fence: a frame counts only when a reader accepts it, and it accepts frames of
one attempt, through one opening, and of no attempt that it gave its word on. It hands out within
its lease only, by its own clock.

Rule 1. Nothing here waits, reads a clock, draws a random number or logs: time comes in.
Rule 2. A number is *taken* when the training loop has it. That is for ever, and told late, twice
        or in any order without harm. *Buffered* is a claim that ends with the reader's standing.
Rule 3. What the loop has before it but did not return yet is still buffered: a `Handed` says how
        far the loop is, and can be cut short. So is what operators behind the reader hold: it is
        `borrowed`, and the outermost iterator says what of it the loop was given.
Rule 4. From its cut to the verdict on a save a reader hands out nothing.

    View ──▶ shares ──OpenStream──▶ worker ──frames──▶ pieces ──ask──▶ Hand ──▶ taken ──SendAck──▶
                                                          └──borrow──▶ places ───┘

Read `mind` first. It keeps a `membership` (standing and permission), the `streams` of its shares,
which workers it can `reach`, what is `borrowed`, and what it is `saving`.
"""

from penstock.reader.core.flow_control import ACK_EVERY
from penstock.reader.core.reachability import ANSWER_WITHIN
from penstock.reader.core.state_machine import ReaderCore

__all__ = ["ACK_EVERY", "ANSWER_WITHIN", "ReaderCore"]
