"""A rule of a protocol, and how to break it on purpose in the real code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from unittest.mock import patch

Break = Callable[[ExitStack], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the protocol in words, and how to break it."""

    words: str
    break_it: Break

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Let the rule be broken for a while."""
        with ExitStack() as stack:
            self.break_it(stack)
            yield


class Rules(dict[str, Rule]):
    """The rules of a protocol by the names of the functions that break them."""

    def add(self, words: str) -> Callable[[Break], Break]:
        """Add the rule that the decorated function breaks."""

        def add(break_it: Break) -> Break:
            self[break_it.__name__] = Rule(words, break_it)
            return break_it

        return add


def put(stack: ExitStack, where: type | ModuleType, name: str, what: object) -> None:
    """Put *what* in the place of a function of the real code, for a while."""
    stack.enter_context(patch.object(where, name, what, create=name in ("dict", "missing")))
