"""A service's HTTP server for metrics, health and the status page, with its access and limits.

`server` listens; the services provide the routes. It is loaded only if a port is set.
"""
