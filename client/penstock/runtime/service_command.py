"""Makes the command of a service from its settings: each field is an option."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.runtime.settings import is_mapping

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LONGEST = 120
"""Characters of an option's help, if its first sentence is not longer."""


def service_app(kind: type[DataclassInstance], help_text: str) -> typer.Typer:
    """Return the command of a service: it has an option for each setting in *kind*."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(help=f"{help_text}\n\nEach option can also be a variable, such as PENSTOCK_PORT.")
    @options_of(kind)
    def run(**given: Any) -> None:
        # The command `penstock` shows these options in its help without the service.
        importlib.import_module(f"{kind.__module__.partition('.')[0]}.process").run(**given)

    return app


def options_of(kind: type[DataclassInstance]) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that gives a command an option for each field of *kind*.

    The option of `worker_timeout` is ``--worker-timeout``. Its help is the first sentences of the
    field's docstring, and the default. A field that holds several values has an option in the
    singular, which may be repeated. The command is called with all fields by name; a field that
    the command line does not set is None.

    >>> from penstock_dispatcher import DispatcherConfig
    >>> @options_of(DispatcherConfig)
    ... def run(**given):
    ...     pass
    >>> "worker_timeout" in inspect.signature(run).parameters
    True
    """
    hints, docs = typing.get_type_hints(kind), field_docstrings(kind)
    found = [
        _parameter(field, hints[field.name], docs.get(field.name, ""))
        for field in sorted(fields(kind), key=attrgetter("kw_only"))
    ]

    def decorate(command: Callable[..., None]) -> Any:
        command.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in found}
        return command

    return decorate


def field_docstrings(kind: type) -> dict[str, str]:
    """Return the docstring below each field of *kind* and of its base classes, by the field's name.

    Without the source of a class there are none.
    """
    bases = [base for base in reversed(kind.__mro__) if is_dataclass(base)]
    return {name: text for base in bases for name, text in _docstrings_of(base)}


def _docstrings_of(kind: type) -> Iterator[tuple[str, str]]:
    try:
        module = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    except OSError:
        return
    classes = (node for node in module.body if isinstance(node, ast.ClassDef))
    (found,) = (node for node in classes if node.name == kind.__name__)
    for field, doc in pairwise(found.body):
        match field, doc:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)


def _parameter(field: Field[Any], hint: Any, doc: str) -> inspect.Parameter:
    inner = [one for one in typing.get_args(hint) if one is not type(None)]
    several = is_mapping(hint) or any(typing.get_origin(h) is tuple for h in (hint, *inner))
    text = _summary(" ".join(doc.replace("`", "").split()))
    if field.default not in (MISSING, None, False, ()):
        text += f" By default {field.default}."
    spelt = f"--{_singular(field.name) if several else field.name}".replace("_", "-")
    option = typer.Option(spelt, help=f"{text} Repeatable." if several else text)
    shown: Any = list[str] if several else hint
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        field.name, kind, default=None, annotation=Annotated[shown | None, option]
    )


def _summary(text: str) -> str:
    """Return the first sentences of *text*: as many as fit, and at least one."""
    kept, *others = re.split(r"(?<=\.) ", text)
    for sentence in others:
        if len(kept) + len(sentence) >= LONGEST:
            break
        kept += f" {sentence}"
    return kept


def _singular(name: str) -> str:
    """Return *name*, a plural, in the singular: ``worker_addresses``, ``worker_tags``."""
    return name.removesuffix("es") if name.endswith("sses") else name.removesuffix("s")
