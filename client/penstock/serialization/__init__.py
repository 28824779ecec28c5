"""Pipelines as bytes: functions, the values they hold, local modules.

Read `modules` first: what is installed is named, what is the user's own is sent along.
`references` says what code refers to, `value_parts` and `code_parts` what a value is made of. On
these stand `pickling` (which also names what cannot be pickled), `digest` (values compared without
pickling) and `fingerprint`; `operators` are nodes as plain data.
"""
