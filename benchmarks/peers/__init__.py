"""The peers of `bench_peers.py`, each in a process of its own, with packages of its own."""
