"""`Dataset`: the fluent face of the graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.analysis.array_spec import Spec
from penstock.analysis.element_spec import element_spec
from penstock.analysis.mixture_shares import mixture_shares
from penstock.analysis.visitation import Visitation, visitation
from penstock.dataset.elementwise import Elementwise
from penstock.dataset.file_sources import FileSources
from penstock.dataset.framework_sources import FrameworkSources
from penstock.dataset.iterator import DatasetIterator
from penstock.dataset.keeping import Keeping
from penstock.dataset.mixing import Mixing
from penstock.dataset.packing import Packing
from penstock.dataset.regrouping import Regrouping
from penstock.dataset.saving import Saving
from penstock.dataset.sources import Sources
from penstock.dataset.table_sources import TableSources
from penstock.element import Element, arranged, describe, own_nest
from penstock.engine import seeds
from penstock.engine.iterator import State
from penstock.errors import DatasetError
from penstock.executors.function import UserFunction, transform_error
from penstock.graph.node import INFINITE, UNKNOWN, Node, function_name
from penstock.graph.traversal import DatasetBase, options_of, shown_pipeline
from penstock.normalise import as_arrays, normalise
from penstock.protocol.types import ShardingPolicy
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.distribute import distribute
from penstock.reader.external_state import check_external_state
from penstock.runtime.tracebacks import named_by


class Dataset(
    Sources,
    FileSources,
    TableSources,
    FrameworkSources,
    Mixing,
    Elementwise,
    Regrouping,
    Packing,
    Saving,
    Keeping,
):
    """An immutable recipe for elements; nothing runs until it is read.

    An element is a nest (tuples, named tuples, dicts) of NumPy arrays, NumPy scalars, `str` and
    `bytes`. Class methods make datasets, every other method returns a new one, and iterating reads
    it; each iterator is a new pass.

    Args:
        node: the last stage of a graph: for tools. Others begin with a class method, as `range`.

    >>> list(Dataset.range(6).map(lambda x: x * x).batch(4))
    [array([0, 1, 4, 9]), array([16, 25])]
    """

    __slots__ = ("_spec",)

    _spec: Spec

    def __getstate__(self) -> object:
        # As by default, but without cached results: it is the same dataset as before.
        return None, {"_node": self.node}

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return what a function makes of this dataset: for steps that have no method.

        Args:
            transformation_func: called with this dataset; it returns another one.

        Raises:
            DatasetError: when it returns anything else.

        >>> def evens(dataset):
        ...     return dataset.filter(lambda x: x % 2 == 0)
        >>> list(Dataset.range(5).apply(evens).batch(3))
        [array([0, 2, 4])]
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise DatasetError(f"apply: transformation_func must return a Dataset, not {dataset!r}")
        return dataset

    # --- the mesh ---

    def distribute(  # noqa: PLR0913  # see `penstock.reader.distribute.distribute`
        self,
        processing_mode: ShardingPolicy | str,
        service: str | tuple[str, str],
        job_name: str | None = None,
        consumer_index: int | str | None = None,
        num_consumers: int | None = None,
        max_outstanding_requests: int | None = None,
        data_transfer_protocol: str | None = None,
        compression: str | None = "AUTO",
        cross_trainer_cache: CrossTrainerCache | None = None,
        target_workers: str = "AUTO",
        *,
        ordered: bool = False,
        remainder: str = "drop",
        writable: bool = False,
        timeout: float = 60.0,
        on_finished: str = "error",
        start_round: int | None = None,
        patience: int | None = None,
        when_full: str = "skip",
        on_error: str = "raise",
        max_errors: int | None = None,
        credentials: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> Dataset:
        """Let workers make the elements; operators after it run in this process.

        Args:
            processing_mode: how elements are divided among workers: a `ShardingPolicy`,
                ``"parallel_epochs"`` (`OFF`) or ``"distributed_epoch"`` (`DYNAMIC`).
            service: the dispatcher's address, such as ``"grpc://host:port"``; or ``"env"``.
            job_name: readers with the same name share the job's elements; None is a job of one
                reader.
            consumer_index: the index of this consumer among *num_consumers*, from 0 on, for
                coordinated reads and for *ordered* ones; or ``"env"``.
            num_consumers: how many consumers read together; None is an uncoordinated read.
            max_outstanding_requests: how many frames may be requested at once; None is 64 MiB.
            data_transfer_protocol: ``"grpc"``, ``"local"``, ``"shm"``, ``"tcp"``, or None for the
                nearest.
            compression: ``"AUTO"``, ``"LZ4"``, ``"ZSTD"`` or None.
            cross_trainer_cache: the trainer that reads, if several trainers share the elements.
            target_workers: ``"AUTO"`` prefers near workers, ``"ANY"`` does not, ``"LOCAL"`` reads
                only workers in this process.
            ordered: whether elements come in one order, whatever the number of workers; consumer k
                of n gets the elements k, k + n, k + 2n, … of it.
            remainder: what to do with a task's last elements if they fill no round: ``"drop"``,
                ``"pad"`` or ``"repeat"``.
            writable: whether arrays may be written to.
            timeout: seconds for which the dispatcher or all workers may be absent; under static
                sharding, the worker of an unread part.
            on_finished: ``"error"``, ``"warn"`` or ``"ignore"`` if *job_name* was used before.
            start_round: the round to begin with; None is where the other consumers are.
            patience: with fewer buffered rounds than this, consumers skip a task that is not ready.
            when_full: ``"skip"`` or ``"wait"`` for a trainer that is too slow for the window.
            on_error: ``"raise"``, or ``"skip"`` to leave out elements for which a function raises.
            max_errors: how many elements of a pass may be left out; None is any number.
            credentials: the folder of credentials, if the dispatcher asks for them.
            seed: fixes the order of the job and each function's ``rng``; passes differ.

        `penstock.reader.distribute.distribute` explains each argument.

        Raises:
            DatasetError: when an argument is malformed, or the pipeline cannot be divided this way.
            DefinitionError: when the pipeline cannot be sent to workers.

        >>> from penstock_cluster import LocalCluster
        >>> with LocalCluster(workers=1) as cluster:
        ...     squares = Dataset.range(4).map(lambda x: x * x)
        ...     list(squares.distribute("distributed_epoch", cluster.target).batch(4))
        [array([0, 1, 4, 9])]
        """
        arguments = {**locals()}  # a copy: a debugger changes the dict itself
        del arguments["self"]
        return self.apply(distribute(**arguments))

    # --- reading ---

    def cardinality(self) -> int:
        """Return how many elements there are, or `INFINITE` (-1), or `UNKNOWN` (-2).

        No element is made to find out.

        >>> Dataset.range(10).batch(4).cardinality()
        3
        """
        return self.node.cardinality

    def visitation(self, *, steps: tuple[int, int] | None = None) -> Visitation:
        """Return how often each element reaches the training loop, also if processes die.

        Print it to read it, with the reasons. No function is called and no data is read. An
        installed package that draws random numbers by itself is not noticed.

        Args:
            steps: the first step and the end of a span of steps. The result then also has, for each
                dataset of a `mixture` (of the outermost, if mixtures are nested), its wanted and
                its real share in the span, the passes that it has given, and the step at which it
                begins its next pass. In a step, a training
                loop takes one element of this dataset, or each of the *num_consumers* of
                `distribute` takes one. Weights that `set_weights` changes are not known here: see
                `penstock weights`. If datasets of the mixture drop elements, the span counts turns.

        Raises:
            DatasetError: when *steps* is no span, when the pipeline has no mixture, or when an
                operator after it, such as `pack`, takes an unknown number of turns in each step.

        >>> print(Dataset.range(4).map(lambda x: x * x).visitation())
        Each element exactly once, whatever dies.
        >>> web, code = Dataset.range(100), Dataset.range(10)
        >>> mixed = Dataset.mixture({"web": web, "code": code}, {"web": 0.75, "code": 0.25})
        >>> shares = mixed.batch(2).visitation(steps=(10, 30)).mixtures[0]
        >>> [(one.name, one.real, one.passes, one.repeats_at) for one in shares.sources]
        [('web', 0.75, 0, 67), ('code', 0.25, 1, 40)]
        """
        found = visitation(self.node)
        if steps is None:
            return found
        return replace(found, mixtures=mixture_shares(self.node, steps))

    @property
    def element_spec(self) -> Spec:
        """Structure, shapes and dtypes of elements: nested `ArraySpec`, `DatasetSpec` for windows.

        The first use makes one element in this process, also after `distribute`. If no function
        runs, `range`, `from_tensor_slices`, `text_lines`, `list_files`, `tfrecords` and
        `fixed_length_records` are not read: their elements are known, also of an empty source.

        An axis whose length may differ between elements is None, such as that of batches of which
        the last may be short. In a function's result, only the first axis can be None: if it is as
        long as a batch that the function was given. For a dataset that is read by its id, it is the
        spec that `register_dataset` found, and functions after it get zeros.

        >>> Dataset.range(5).batch(2).element_spec
        ArraySpec(shape=(None,), dtype=dtype('int64'))

        Raises:
            DatasetError: when only an element can tell, and there are none.
        """
        try:
            return self._spec
        except AttributeError:
            self._spec = element_spec(self.node)
            return self._spec

    def reduce(self, initial_state: Any, reduce_func: Callable[[Element, Element], Any]) -> Element:
        """Return the last state of ``state = reduce_func(state, element)`` over all elements.

        Args:
            initial_state: a nest of array-likes. The state keeps its structure.
            reduce_func: called as ``reduce_func(state, element)``, without unpacking tuples; it
                returns the next state.

        Raises:
            DatasetError: when *reduce_func* is not callable.
            ElementError: when *initial_state* is no nest of arrays and text.
            TransformError: when *reduce_func* raises, or returns something else than a state.
            PenstockError: each error that reading raises.

        >>> int(Dataset.range(5).reduce(0, lambda total, x: total + x))
        10
        """
        return reduced(self._checked(), initial_state, reduce_func)

    def get_single_element(self) -> Element:
        """Return the only element.

        Raises:
            DatasetError: when there are none, or more than one.
            PenstockError: each error that reading raises.

        >>> Dataset.range(5).batch(5).get_single_element()
        array([0, 1, 2, 3, 4])
        """
        return single(self._checked())

    def iterator(self, state: State = None, *, seed: int | None = None) -> DatasetIterator:
        """Return an iterator that starts at the beginning, or at a saved state.

        With `distribute`, a state is that of the whole job. Any number of readers and workers can
        continue it, also on a cluster that never saw the job. Readers that give the state and the
        same ``job_name`` share the rest of the elements; the first of them opens the job. Elements
        that were acknowledged after the save come again, and readers of the earlier job get a
        `Superseded` error. The operators after `distribute` may differ, for example in batch size.

        Args:
            state: the result of `DatasetIterator.state`, from any process, for a dataset that the
                same code built; None is the beginning.
            seed: fixes the order and each function's ``rng``, and overrides `Options.seed`. The
                next pass of this dataset object with the same seed has another order, which is the
                same in each run. A *state* continues with its own seed.

        Raises:
            StateError: saying what differs, when the state is not one of this dataset.
            DatasetError: when the pipeline is refused by its own `Options.external_state_policy`;
                when *seed* is no integer from 0 to 2⁶³ - 1.
            WaitedTooLong: when the dispatcher of a job is absent for too long.
            Refused: when the dispatcher refuses the job, as `JobMismatch` or `JobUsed`.

        >>> first = iter(Dataset.range(5))
        >>> int(next(first)), int(next(first))
        (0, 1)
        >>> [int(x) for x in Dataset.range(5).iterator(first.state())]
        [2, 3, 4]
        """
        return DatasetIterator(self._checked(), state, seed)

    def as_numpy_iterator(self) -> DatasetIterator:
        """Return an iterator, as ``iter(dataset)`` does. Elements are always NumPy arrays.

        Raises:
            PenstockError: as `iterator`.

        >>> next(Dataset.range(5).batch(3).as_numpy_iterator())
        array([0, 1, 2])
        """
        return DatasetIterator(self._checked())

    def __iter__(self) -> DatasetIterator:
        return DatasetIterator(self._checked())

    def _checked(self) -> Node:
        """Return the graph, checked: its errors show when it is read, in any way."""
        check_external_state(self.node)
        return self.node

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        size = self.node.cardinality
        if size in (INFINITE, UNKNOWN):
            word = "infinite" if size == INFINITE else "unknown"
            raise TypeError(f"the length of this dataset is {word}; see Dataset.cardinality()")
        return size

    def __repr__(self) -> str:
        return f"<Dataset {shown_pipeline(self.node)}>"


DatasetBase.concrete = Dataset
named_by(Dataset)


def reduced(node: Node, initial: Any, fn: Callable[..., Any]) -> Element:
    """Return the last state of ``state = fn(state, element)``; see `Dataset.reduce`."""
    if not callable(fn):
        raise DatasetError(f"reduce: reduce_func must be callable, not {fn!r}")
    state = normalise(as_arrays(initial))
    given = options_of(node).seed
    label = f"reduce({function_name(fn)})"
    call = UserFunction(
        fn, label, seeds.fresh() if given is None else seeds.derive(given, "reduce")
    )
    with DatasetIterator(node) as elements:
        for number, element in enumerate(elements):
            answer = call((own_nest(state), element), number)
            try:
                state = _next(answer, state)
            except BaseException as exc:
                raise transform_error(label, number, exc, element) from exc
    return state


def single(node: Node) -> Element:
    """Return the only element of *node*; see `Dataset.get_single_element`."""
    with DatasetIterator(node) as elements:
        found = [element for element, _ in zip(elements, range(2), strict=False)]
    if len(found) != 1:
        raise DatasetError(
            f"get_single_element: the dataset has {'more than one' if found else 'no'} element; "
            "it takes a dataset of exactly one: see take(1) and batch"
        )
    return found[0]


def _next(answer: Any, before: Element) -> Element:
    returned = normalise(answer)
    state = arranged(before, returned)
    if state is None:
        raise DatasetError(
            f"reduce_func was given {describe(before)} and returned {describe(returned)}; it must "
            "keep the structure of initial_state"
        )
    return state
