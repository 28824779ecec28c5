"""A fuzz of all that arrives or is read again: `python -m fuzz` (see `make help`), and tests."""
