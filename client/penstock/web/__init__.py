"""HTTP of a service, to look at it: who may ask, and what is bounded.

`server` listens; what it answers is the services' own. It is loaded only where a port is set.
"""
