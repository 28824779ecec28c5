"""How frames come from a worker to a reader: `pool` keeps one `Transport` a worker."""
