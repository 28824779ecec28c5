"""Chooses how to run a pipeline that is iterated: in this process, or as a reader of a job."""

from __future__ import annotations

from penstock.engine.iterator import State
from penstock.graph.node import Node
from penstock.graph.run import LocalRun, PipelineRun
from penstock.graph.traversal import options_of, walk
from penstock.runtime.descriptors import check_room


def reads_job(node: Node) -> bool:
    """Return whether elements come from workers."""
    return any(stage.op == "distribute" for _, stage in walk(node))


def reading_of(node: Node, shape: str, state: State, seed: int | None = None) -> PipelineRun:
    """Return a run of the pipeline at *node*, from *state* on; *seed* wins over its options."""
    if not reads_job(node):
        # A save reads each element once, and a receipt is another one when it is made again.
        if options_of(node).autocache.path is None or node.op == "write_chunks":
            return LocalRun(node, shape, state, seed)
        from penstock.autocache.run import AutocachedRun  # noqa: PLC0415  few pipelines need it

        return AutocachedRun(node, shape, state, seed)
    try:
        from penstock.reader import job_run  # noqa: PLC0415  # what runs here alone needs none of it
    except OSError:
        check_room()  # without one descriptor nothing is loaded: that says why
        raise
    return job_run.JobRun(node, shape, state, seed)
