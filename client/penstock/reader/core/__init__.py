"""A reader's decisions: which elements it has, which it may deliver, and its reports.

The reader is the fence: a frame counts only when a reader accepts it, and it accepts frames of
one attempt, through one subscription, and of no attempt below its fence. It delivers within
its lease only, by its own clock.

Rule 1. Nothing here waits, reads a clock, draws a random number or logs: time comes in.
Rule 2. A number is *acked* once the loop consumed it. That is irrevocable, and is sent late,
        twice or in any order without harm. *Buffered* is a claim that ends with the reader's lease.
Rule 3. Delivered elements that lie in local operators or in the block before the loop are still
        buffered. `Deliveries` knows their tags; the outermost operator's marks say which are acked.
        A `distribute` with no operator after it is its own outermost operator.
Rule 4. From its barrier to the result of a save a reader hands nothing to the loop.

    ReaderView ──▶ task streams ──Subscribe──▶ worker ──frames──▶ frame slices ──▶ loop ──Ack──▶

Read `session_core` first: what all cores do alike. It has a `membership` (id, lease, known tasks),
the `reachability` of workers, and the `save_barrier`. Each task has a `task_stream`, and
`flow_control` sends acks and credit within `limits`. An `ack_collector` keeps the unacked elements
(its `deliveries`). `state_machine` has the core of usual reads.

`rounds` has that of a consumer of coordinated reads. Its `group_streams` fetch ahead, and
`round_reports` report the groups that are here. The `round_log` names the rounds to hand out.
"""

from penstock.reader.core.flow_control import ACK_EVERY
from penstock.reader.core.reachability import ANSWER_WITHIN
from penstock.reader.core.state_machine import ReaderCore

__all__ = ["ACK_EVERY", "ANSWER_WITHIN", "ReaderCore"]
