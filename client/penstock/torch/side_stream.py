"""Copies to a GPU on a stream of their own, while the step before runs.

The thread that reads ahead queues the copies and an event behind them; the loop's stream waits for
that event, on the device, and the host waits for nothing. Memory that the side stream allocated is
marked as used by the loop's stream, so that it is not given away while a step reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from penstock.torch.tensors import each_tensor


@dataclass(frozen=True, slots=True)
class Copied:
    """Tensors on their way to the device, and what happens when they are there.

    The sources are kept until then: a copy out of pinned memory may not have begun.
    """

    tensors: Any
    sources: Any
    event: Any


class SideStream:
    """Copies tensors to *device*; *cuda* is `torch.cuda`, or what stands for it in a test."""

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device, self._cuda = device, cuda
        self._stream: Any = None

    def copy(self, tensors: Any) -> Copied:
        """Begin to copy *tensors*, a nest of CPU tensors. In the thread that reads ahead."""
        cuda = self._cuda
        if self._stream is None:
            self._stream = cuda.Stream(device=self._device)
        with cuda.stream(self._stream):
            there = each_tensor(self._sent, tensors)
            event = cuda.Event()
            event.record(self._stream)
        return Copied(there, tensors, event)

    def _sent(self, tensor: Any) -> Any:
        return tensor.to(self._device, non_blocking=True)

    def handed_out(self, copied: Copied) -> Any:
        """Return the tensors, for work that is queued from now on. In the loop's thread."""
        loop = self._cuda.current_stream(self._device)
        loop.wait_event(copied.event)
        each_tensor(lambda tensor: tensor.record_stream(loop), copied.tensors)
        return copied.tensors
