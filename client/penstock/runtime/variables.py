"""Which ``PENSTOCK_*`` variables there are, and which of an environment nothing reads.

The settings of services are fields of their configurations. They are repeated here, as the library
knows no service and a worker may be given the variables of its dispatcher; a test compares them.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping

from penstock.runtime.settings import PREFIX

_NAMES = """
    buffer_bytes client_timeout consumer_timeout credentials cross_trainer_cache_size_bytes
    data_transfer_address data_transfer_protocol dataset_gc_timeout dispatcher_address
    dispatcher_timeout drain durability fault_tolerant_mode gc_dynamic_sharding_jobs health_file
    heartbeat_interval host http_host http_port insecure job_gc_check_interval job_gc_timeout limits
    port process_idle process_memory processes_idle protocol reassign_static_tasks
    runner_environment runner_memory_bytes runner_niceness runner_read_only runner_user
    runner_writable slots socket_dir tensorflow_datasets tensorflow_host tensorflow_port
    total_buffer_bytes work_dir worker_address worker_addresses worker_tags worker_timeout

    consumer_index docs index lifeline_fd linger log log_format malloc no_platform num_consumers
    prefer ready_fd role tag target trial zygote_fd zygotes_fd
"""

KNOWN = frozenset(_NAMES.split())
"""All of them, without the prefix, in small letters: settings first, then the others."""

_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP)(_\w+)?$")
"""Kubernetes tells containers of services in such variables."""


def misspelt(env: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a sentence on each ``PENSTOCK_*`` variable of *env* that nothing reads.

    >>> [said] = misspelt({PREFIX + "TARGT": "big:7000"})
    >>> said.endswith("did you mean PENSTOCK_TARGET?")
    True
    """
    for name in sorted(env):
        field = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX) or field in KNOWN or _is_link(name, env[name]):
            continue
        like = difflib.get_close_matches(field, KNOWN, n=1)
        hint = f"did you mean {PREFIX}{like[0].upper()}?" if like else "it has no effect"
        yield f"{name} is set, but Penstock does not read it: {hint}"


def _is_link(name: str, value: str) -> bool:
    return bool(_LINK.search(name)) or (
        name.endswith("_PORT") and value.startswith(("tcp://", "udp://"))
    )
