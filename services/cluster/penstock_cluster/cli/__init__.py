"""The command ``penstock``: `app` is its list of commands; each other module is one of them."""
