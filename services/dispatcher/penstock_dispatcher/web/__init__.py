"""The HTTP server of a dispatcher. Loaded only where it has a port for that."""
