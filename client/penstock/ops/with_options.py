"""`with_options`: the same elements, with options for how they are made. State: the input's own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from penstock import files
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.graph.node import Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.options import AutocacheOptions, AutotuneOptions, Options
from penstock.saved.folder import folder_of


@dataclass(frozen=True, eq=False)
class WithOptions(Node):
    """The elements of *upstream*; the rest is `penstock.options.Options`."""

    op: ClassVar[str] = "with_options"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    deterministic: bool | None
    threads: int | None
    autotune: bool | None
    cpu_budget: int | None
    ram_budget: int | None
    external_state_policy: str | None = field(default=None, compare=False)
    seed: int | None = field(default=None, compare=False)
    autocache_path: str | None = field(default=None, compare=False)
    autocache_bytes: int | None = field(default=None, compare=False)
    autocache_passes: int | None = field(default=None, compare=False)

    @property
    def options(self) -> Options:
        """See `Node.options`."""
        auto = AutotuneOptions(self.autotune, self.cpu_budget, self.ram_budget)
        policy, seed = self.external_state_policy, self.seed
        kept = AutocacheOptions(self.autocache_path, self.autocache_bytes, self.autocache_passes)
        return Options(self.deterministic, self.threads, auto, policy, seed, kept)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`. Options are collected before anything is opened."""
        return context.open(self.upstream, state)


def with_options(node: Node, options: Options) -> Node:
    """Return *node* with *options*; operators before it that say nothing themselves follow them.

    Raises:
        DatasetError: when *options* are none.
    """
    if not isinstance(options, Options):
        raise DatasetError(
            f"with_options: options must be penstock.options.Options, not {options!r}"
        )
    auto = options.autotune
    rest = (options.threads, auto.enabled, auto.cpu_budget, auto.ram_budget)
    kept = options.autocache
    kept_fields = (_autocache_folder(node, kept.path), kept.max_bytes, kept.passes)
    policy = options.external_state_policy
    if options.deterministic is not None:
        node = rewritten(node, lambda stage: _following(stage, options.deterministic))
    return WithOptions(node, options.deterministic, *rest, policy, options.seed, *kept_fields)


def _autocache_folder(node: Node, path: Any) -> str | None:
    """Return the folder at *path* for autocache of the pipeline that ends in *node*, if any.

    Raises:
        DatasetError: when nothing can be kept there.
    """
    if path is None:
        return None
    if any(stage.on_workers for stage in topological_order(node)):
        raise DatasetError(
            "with_options: autocache keeps elements before distribute, and workers make these: put "
            "with_options(Options(autocache=...)) directly before distribute"
        )
    needed("pyarrow", "Options(autocache=...)")
    (folder,) = files.names("autocache", "path", path)
    folder_of("autocache", folder)  # a store that has no atomic creation is an error now
    return folder


def _following(stage: Node, deterministic: bool | None) -> Node:
    if getattr(stage, "by_options", deterministic) == deterministic:
        return stage
    return replace(stage, by_options=deterministic)  # type: ignore[call-arg]  # it has this field
