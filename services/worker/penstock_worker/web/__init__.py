"""A worker's answers by HTTP. Loaded only where it has a port for that."""
