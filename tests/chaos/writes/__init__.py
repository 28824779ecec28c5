"""A dispatcher that is killed at each of the calls by which it changes its folder."""
