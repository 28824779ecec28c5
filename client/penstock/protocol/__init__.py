"""Messages between Penstock's processes, as frozen dataclasses without I/O.

`types` has ids and enums, `ranges` sets of numbers, `splits` units of source input, `mixture` which
source each turn of a mixture takes. `control` has the streams to and from the dispatcher, `calls`
the calls with one reply, `data` the streams between workers and readers, and `definition` a
pipeline.

These classes are the one description of each message: `make protos` writes the .proto files from
them. It keeps the numbers of fields: a field may be added or removed, but not change its type.
"""
