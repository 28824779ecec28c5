"""One reader at work: one lock around one core, and its streams on the event loop.

`open` registers, opens and starts. In `session`, the loop's thread and the network meet. `answers`
are a session's answers about itself. `network` runs the streams, `line` is the connection to the
dispatcher, and `payload` decodes a frame at first use. `deadlines` says why a loop waits, and until
when.
"""
