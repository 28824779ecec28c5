"""`Loader`: a dataset's elements as tensors, on the device before the step that uses them.

Copies to a GPU run on a stream of their own, during the step before. The thread that reads ahead
queues the copies and an event after them. The loop's stream waits for that event on the device, and
the host does not wait. Memory that the side stream allocated is marked as used by the loop's
stream, so that it is not reused while a step reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.distributed as dist
import torch.utils.data

from penstock.element import Element
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.loading.loader import FrameworkLoader, jobs
from penstock.runtime.tracebacks import named_by
from penstock.torch.tensors import each_tensor, tensors_of


class Loader(FrameworkLoader):
    """A dataset's elements as nests of tensors; each ``iter()`` is a pass.

    Elements have the dataset's structure, with a `torch.Tensor` of the same dtype and shape in the
    place of each array and scalar. Text stays text: `str` or `bytes`, and a list in the place of an
    array of text. On the CPU a tensor has its array's memory where that may be
    written to (``distribute(..., writable=True)``), and a copy else. To a GPU the next elements are
    copied while the step before runs, on a stream of their own.

    With ranks that share a job (one *job_name*, no consumer indexes), each step begins with an
    ``all_reduce`` of one number: when one rank has nothing more, all end, and `missed` counts
    the elements that the others had in hand, each of a batch. With consumer indexes all ranks have
    equally many batches as it is.

    Args:
        dataset: what to read. Its batches are the loader's: there is no batch size here.
        device: where tensors are wanted, as ``"cuda"``; None is the CPU.
        pin_memory: whether copies go through pinned memory; None: if *device* is a GPU.
        prefetch: how many elements are placed ahead of the loop; 0 is without a thread.
        even: whether all ranks are asked in each step, as above; None: where they share a job.

    Raises:
        DatasetError: when an argument is malformed, or pinned memory is asked for without a GPU.
        ElementError: at the element, when it holds numbers that torch has not, as times.

    >>> from penstock.torch import Loader
    >>> loader = Loader(Dataset.range(4).map(lambda x: {"x": x * 0.5}).batch(2))
    >>> for batch in loader:
    ...     print(batch["x"], loader.steps)
    tensor([0.0000, 0.5000], dtype=torch.float64) 1
    tensor([1.0000, 1.5000], dtype=torch.float64) 2
    """

    framework: ClassVar[str] = "penstock.torch.Loader"

    def __init__(
        self,
        dataset: Any,
        device: str | torch.device | int | None = None,
        pin_memory: bool | None = None,
        prefetch: int = 2,
        *,
        even: bool | None = None,
    ) -> None:
        self._device = None if device is None else torch.device(device)
        on_gpu = self._device is not None and self._device.type == "cuda"
        self._pins = on_gpu if pin_memory is None else bool(pin_memory)
        if self._pins and not torch.cuda.is_available():
            raise DatasetError(
                f"Loader: pinned memory is for copies to a GPU, and torch finds none here "
                f"(device={device!r}, pin_memory={pin_memory!r}): leave both out"
            )
        self._side = SideStream(self._device) if on_gpu and self._device is not None else None
        super().__init__(dataset, prefetch)
        self._even = even
        self._end = even_end(self._node, even)

    def __iter__(self) -> Any:
        self._end = even_end(self._node, self._even)  # the group may have been made since
        return super().__iter__()

    def _place(self, element: Element) -> Any:
        tensors = tensors_of(element)
        if self._pins:
            tensors = each_tensor(lambda each: each.pin_memory(), tensors)
        if self._side is not None:
            return self._side.copy(tensors)
        if self._device is None:
            return tensors
        return each_tensor(lambda each: each.to(self._device), tensors)

    def _hand_out(self, placed: Any) -> Any:
        return placed if self._side is None else self._side.handed_out(placed)

    def _goes_on(self, *, here: bool) -> bool:
        return here if self._end is None else self._end.goes_on(here=here)


named_by(Loader)


class EvenEnd:
    """Asks all ranks of *group*, once a step, whether each has an element."""

    def __init__(self, group: Any = None) -> None:
        self._group = group
        on_gpu = dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else None

    def goes_on(self, *, here: bool) -> bool:
        """Return whether all ranks have an element; *here* says so of this one."""
        flag = torch.tensor([int(here)], dtype=torch.int32, device=self._device)
        dist.all_reduce(flag, dist.ReduceOp.MIN, group=self._group)
        return bool(flag.item())


def even_end(node: Node, even: bool | None) -> EvenEnd | None:
    """Return how the ranks end together, or None where they do so by themselves.

    By default they are asked when there is more than one and they share a job that is not read in
    rounds: first come, first served, or in one order, of which some get an element more.

    Raises:
        DatasetError: when *even* is asked for and there is no process group.
    """
    ready = dist.is_available() and dist.is_initialized()
    if even and not ready:
        raise DatasetError(
            "Loader: even=True asks all ranks in each step, and there is no process group yet: "
            "call torch.distributed.init_process_group() first"
        )
    if even is False or not ready or dist.get_world_size() == 1:
        return None
    shared = any(job.shared and not job.in_rounds for job in jobs(node))
    return EvenEnd() if even or shared else None


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


def as_iterable(dataset: Any) -> PassedOn:
    """Return a dataset as an `torch.utils.data.IterableDataset` of nests of CPU tensors and text.

    Read it by ``DataLoader(as_iterable(dataset), batch_size=None)``: batches are the dataset's own.
    It has ``state_dict`` and ``load_state_dict``, which `torchdata`'s ``StatefulDataLoader`` calls.
    Processes of a ``DataLoader`` (``num_workers=1`` and more) are refused: each would read all of
    the job. Workers of Penstock make elements in parallel instead.

    Args:
        dataset: what to read.

    Raises:
        DatasetError: when *dataset* is no `Dataset`; and when it is read in a ``DataLoader``'s
            process.
        ElementError: at the element, when it holds numbers that torch has not, as times.

    >>> from torch.utils.data import DataLoader
    >>> from penstock.torch import as_iterable
    >>> batches = DataLoader(as_iterable(Dataset.range(4).batch(2)), batch_size=None)
    >>> list(batches)
    [tensor([0, 1]), tensor([2, 3])]
    """
    made = Counted(dataset)
    return made if made.known else PassedOn(dataset)


class PassedOn(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """The result of `as_iterable`."""

    def __init__(self, dataset: Any) -> None:
        self._loader = _Tensors(dataset, prefetch=0)

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        if info is not None:
            raise DatasetError(
                f"as_iterable: this is process {info.id} of {info.num_workers} of a DataLoader, "
                "and each would read all of the dataset by itself: use num_workers=0; "
                "Dataset.distribute has elements made in parallel, by workers of Penstock"
            )
        return iter(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass that is read stands, as plain JSON; see `Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next ``iter()`` continue from a state; see `Loader.load_state_dict`."""
        self._loader.load_state_dict(state)


class Counted(PassedOn):
    """A `PassedOn` whose number of elements is known: others must have no length."""

    @property
    def known(self) -> bool:
        """Whether the number of elements is known."""
        return self._loader.cardinality >= 0

    def __len__(self) -> int:
        return len(self._loader)


class _Tensors(FrameworkLoader):
    framework: ClassVar[str] = "penstock.torch.as_iterable"

    def _place(self, element: Element) -> Any:
        return tensors_of(element)
