"""Runners: processes beside the worker that run users' code and write frames.

The worker execs one zygote, which never loads gRPC; the zygote forks runners on request. A
runner and its worker talk over a unix socket in `orders`; frames go through an `arena`.
"""
