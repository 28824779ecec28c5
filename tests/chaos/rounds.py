"""What must be true of the rounds that consumers wrote down, and of the account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from chaos import counting
from chaos.mesh import Reader
from chaos.plan import OFF, Plan, Rounds
from penstock_dispatcher.core.account import Account


@dataclass
class Part:
    """What one process took as a consumer: in each round an id, from round *begins* on."""

    index: int
    begins: int
    took: dict[int, int] = field(default_factory=dict)
    fillers: set[int] = field(default_factory=set)
    """The rounds in which it took one."""
    at: int = 0
    end: int | None = None
    problems: list[str] = field(default_factory=list)


def part_of(reader: Reader) -> Part | None:
    """Return what *reader* took; None if it did not come to begin."""
    records = reader.records()
    if not records or records[0][0] != "b":
        return None
    part = Part(reader.role.consumer, records[0][1], at=records[0][1])
    step: list[tuple[str, int]] = []
    for kind, number in [*records[1:], ("", 0)]:
        if kind in "tm" and kind:
            step.append((kind, number))
            continue
        _take(part, step)
        step = []
        if kind == "r":
            step = [(kind, number)]
        elif kind == "g":
            part.at = max(part.at, number)
        elif kind == "z":
            part.end = number
    # Where the pass is over it begins at the end.
    if reader.role.start not in (None, part.begins) and part.end != part.begins:
        part.problems.append(f"began with {part.begins}, not with {reader.role.start}")
    return part


def _take(part: Part, step: list[tuple[str, int]]) -> None:
    if not step:
        return
    (_, behind), *ids = step
    first = behind - len(ids)
    if first != part.at:
        part.problems.append(f"was at round {part.at}, and took round {first}")
    for number, (kind, taken) in enumerate(ids, first):
        part.took[number] = taken
        if kind == "m":
            part.fillers.add(number)
    part.at = behind


def check(plan: Plan, copies: int, readers: list[Reader], accounts: list[Account]) -> list[str]:
    """Return what is wrong, in words."""
    parts = [part for reader in readers if (part := part_of(reader)) is not None]
    problems = [f"consumer {part.index} {it}" for part in parts for it in part.problems]
    ends = {part.end for part in parts if part.end is not None}
    if len(ends) != 1:
        return [*problems, f"consumers ended with different rounds: {sorted(ends)}"]
    if len(accounts) < plan.passes:
        return [*problems, f"the dispatcher shows the accounts of {len(accounts)} passes"]
    (end,), account = ends, accounts[-1]
    rounds = _rounds(parts, problems)
    problems += _torn(plan, rounds, end)
    problems += _lost(plan, rounds, parts, end)
    problems += _wanted(plan, copies, rounds, end, account)
    problems += [f"a pass is not finished: {it}" for it in accounts if not it.finished]
    problems += [f"account: {fault}; {it}" for it in accounts for fault in it.faults()]
    killed = sum(reader.process.killed for reader in readers)
    most = killed * counting.step(plan)  # taken, and not written down
    logged = sum(len(part.took) for part in parts)
    if account.consumed > logged + most or not (
        killed or account.unreported or account.consumed >= logged
    ):
        problems.append(f"loops logged {logged}, the account says {account.consumed}: {account}")
    return problems


def repeated(readers: Iterable[Reader]) -> int:
    """Return how many elements came to a consumer again."""
    parts = [part for reader in readers if (part := part_of(reader)) is not None]
    taken = Counter((part.index, number) for part in parts for number in part.took)
    return taken.total() - len(taken)


WORDS = {"c": "lost", "g": "agreed", "u": "superseded", "l": "left"}


def told(readers: Iterable[Reader]) -> Counter[str]:
    """Return how often loops were told that others were lost, went on as agreed, and so on."""
    kinds = (kind for reader in readers for kind, _ in reader.records())
    return Counter(WORDS[kind] for kind in kinds if kind in WORDS)


def missed(readers: Iterable[Reader]) -> int:
    """Return how many elements came to no process of their consumer, below the end."""
    parts = [part for reader in readers if (part := part_of(reader)) is not None]
    indexes = {part.index for part in parts}
    end = max((part.end or 0 for part in parts), default=0)
    return end * len(indexes) - len({(p.index, n) for p in parts for n in p.took})


def _rounds(parts: Iterable[Part], problems: list[str]) -> dict[int, dict[int, int]]:
    """Return who took what in each round; who took it again must have got the same."""
    rounds: dict[int, dict[int, int]] = {}
    for part in parts:
        for number, taken in part.took.items():
            before = rounds.setdefault(number, {}).setdefault(part.index, taken)
            if before != taken:
                problems.append(
                    f"consumer {part.index} took {before} in round {number}, and then {taken}"
                )
    return rounds


def _torn(plan: Plan, rounds: Mapping[int, Mapping[int, int]], end: int) -> Iterator[str]:
    """Yield which rounds are not of one group."""
    assert isinstance(plan.sharing, Rounds)
    many = plan.sharing.consumers
    for number, taken in sorted(rounds.items()):
        ordered = [taken[index] for index in sorted(taken)]
        if number >= end:
            yield f"round {number} was taken, and the end is {end}: {taken}"
        if "groups" in plan.pipeline:
            if len({i // many for i in ordered}) > 1 or any(
                i % many != index for index, i in taken.items()
            ):
                yield f"round {number} is torn: {taken}"
        elif "shuffle" not in plan.pipeline and (firsts := [*dict.fromkeys(ordered)]) != sorted(
            firsts
        ):
            yield f"round {number} is torn: {taken}"
        if plan.sharing.remainder == "drop" and len(set(ordered)) != len(ordered):
            yield f"round {number} has elements twice: {taken}"


def _lost(
    plan: Plan, rounds: Mapping[int, Mapping[int, int]], parts: list[Part], end: int
) -> Iterator[str]:
    """Yield which rounds a consumer lacks that was never started again."""
    assert isinstance(plan.sharing, Rounds)
    for index in range(plan.sharing.consumers):
        mine = [part for part in parts if part.index == index]
        lacks = [number for number in range(end) if index not in rounds.get(number, {})]
        if len(mine) == 1 and mine[0].at == len(mine[0].took) and lacks:
            yield f"consumer {index} lacks rounds {lacks[:12]} of {end}"
        if mine and mine[0].begins:
            yield f"consumer {index} began with round {mine[0].begins}"


def _wanted(
    plan: Plan,
    copies: int,
    rounds: Mapping[int, Mapping[int, int]],
    end: int,
    account: Account,
) -> Iterator[str]:
    """Yield what is wrong with the elements that all rounds have, taken together."""
    assert isinstance(plan.sharing, Rounds)
    many, known = plan.sharing.consumers, account.rounds
    if plan.mode == OFF:
        copies = max(copies, account.elements // plan.elements)
    else:
        copies = 1
    if account.elements != plan.elements * copies:
        yield f"{account.elements} elements were made, of {plan.elements} x {copies}: {account}"
    if end * many != account.elements - known.left_out + known.padding:
        yield f"{end} rounds of {many}: {account}"
    if "groups" in plan.pipeline:
        groups = Counter(min(taken.values()) // many for taken in rounds.values())
        allowed = Counter(dict.fromkeys(range(plan.elements // many), copies))
        if groups - allowed:
            yield f"groups were rounds too often: {sorted((groups - allowed).elements())[:12]}"
        if len(rounds) == end and allowed - groups:
            yield f"groups were no rounds: {sorted((allowed - groups).elements())[:12]}"
        return
    taken = Counter(i for by in rounds.values() for i in by.values())
    often = taken - Counter(dict.fromkeys(range(plan.elements), copies))
    if often.total() > known.padding:
        yield f"{often.total()} ids too often, {known.padding} fillers: {sorted(often)[:12]}"
    lacking = end * many - taken.total()
    lost = plan.elements * copies - (taken - often).total()
    if lost > lacking + known.left_out:
        yield f"{lost} ids were in no round; {lacking} were missed, {known.left_out} left out"
