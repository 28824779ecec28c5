"""Pipelines as bytes: functions, the values they hold, local modules.

Read `modules` first: installed modules are named, the user's own are sent along.
`references` says what code refers to, `value_parts` and `code_parts` what a value is made of. On
these stand `pickling` (which also names what cannot be pickled), `digest` (values compared without
pickling) and `fingerprint`; `operators` are nodes as plain data.
"""
