"""The page: what a dispatcher shows of its mesh to people who look on.

`time_line` and `history` keep what was seen of late, in bounded memory; `standing`, `job_view`,
`mesh_view` and `headline` make of it what is shown; `snapshot` puts it together.
"""
