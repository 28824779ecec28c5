"""`penstock run`: the same command on every host of a training cluster, whatever launched it.

`plan` decides what a host's role asks for; `run` starts that, and ends it with the script;
`supervision` starts again what ends by itself.
"""
