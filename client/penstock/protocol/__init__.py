"""Messages between Penstock's processes, as frozen dataclasses without I/O.

`types` has ids and enums, `ranges` sets of numbers, `splits` units of source input. `control` has
the messages to and from the dispatcher, `data` those between workers and readers, and
`definition` a pipeline.
"""
