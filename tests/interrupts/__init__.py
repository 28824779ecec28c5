"""Signals whose handlers raise, at any moment of a loop: it continues, and nothing is lost."""
