"""Operators of several datasets, and their models."""

from bisect import bisect_right
from itertools import accumulate

from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.engine import draws
from pipelines.stage import Join, flags

ZIP = Join(
    "zip",
    lambda a, b: Dataset.zip(a, b).map(lambda x, y: x + y),
    lambda xs, ys: [x + y for x, y in zip(xs, ys)],
)
CONCATENATE = Join("concatenate", lambda a, b: a.concatenate(b), lambda xs, ys: xs + ys)


def chosen(lists, choices, stop):
    rests = [iter(xs) for xs in lists]
    out = []
    for choice in choices:
        x = next(rests[choice], None)
        if x is not None:
            out.append(x)
        elif stop:
            break
    return out


@st.composite
def choosing(draw):
    choices, stop = draw(st.lists(st.integers(0, 1), max_size=20)), draw(flags)
    return Join(
        f"choose_from_datasets({choices}, {stop})",
        lambda a, b: Dataset.choose_from_datasets([a, b], Dataset.from_sequence(choices), stop),
        lambda xs, ys: chosen([xs, ys], choices, stop),
    )


def sampled(lists, weights, seed, stop):
    """Each turn draws among the datasets that have not ended; to find that out takes no turn."""
    rests = [list(xs) for xs in lists]
    live = [weight > 0 for weight in weights]
    out = []
    turn = 0
    while any(live):
        shares = [weight if alive else 0.0 for weight, alive in zip(weights, live)]
        bounds = [bound / sum(shares) for bound in accumulate(shares)]
        number = (int(draws.draw(seed, turn, turn + 1)[0]) >> 11) * 2.0**-53
        which = bisect_right(bounds, number)
        if rests[which]:
            out.append(rests[which].pop(0))
            turn += 1
        elif stop:
            break
        else:
            live[which] = False
    return out


@st.composite
def sampling(draw):
    weights = draw(st.sampled_from([[1.0, 1.0], [0.25, 0.75], [1.0, 0.0], [3.0, 1.0]]))
    seed, stop = draw(st.sampled_from([None, 0, 1, 2])), draw(flags)
    return Join(
        f"sample_from_datasets({weights}, {seed}, {stop})",
        lambda a, b: Dataset.sample_from_datasets(
            [a, b], weights, seed, stop, rerandomize_each_iteration=False
        ),
        lambda xs, ys: None if seed is None else sampled([xs, ys], weights, seed, stop),
    )


MIXED = Join(
    "mixture",
    lambda a, b: Dataset.mixture(
        {"a": a.concatenate(Dataset.range(3)), "b": b.concatenate(Dataset.range(3))},
        {"a": 2, "b": 1},
        stop="drop",
        turns_per_task=8,
    ),
    lambda xs, ys: None,  # its turns count elements of the index, and filters may drop some
)


def owed(lists, stop):
    """The next element is of the list that is owed most; sizes are elements modulo 5."""
    rests, parts, debts, out = [list(xs) for xs in lists], [2, 1], [0, 0], []
    while any(parts):
        which = 0 if parts[0] and (not parts[1] or debts[0] >= debts[1]) else 1
        if not rests[which] and stop == "first":
            break
        if not rests[which]:
            live = [0 if i == which else part for i, part in enumerate(parts)]
            debts = [d * sum(live) // sum(parts) if part else 0 for d, part in zip(debts, live)]
            parts = live
            continue
        out.append(rests[which].pop(0))
        size = max(1, out[-1] % 5)  # an element without tokens counts as one
        debts = [d + size * part for d, part in zip(debts, parts)]
        debts[which] -= size * sum(parts)
    return out


@st.composite
def mixing_streams(draw):
    stop = draw(st.sampled_from(["first", "drop"]))
    return Join(
        f"mixture({stop})",
        lambda a, b: Dataset.mixture(
            {"a": a.concatenate(Dataset.range(1)), "b": b.concatenate(Dataset.range(1))},
            {"a": 2, "b": 1},
            unit="tokens",
            length=lambda x: x % 5,
            stop=stop,
        ),
        lambda xs, ys: owed([[*xs, 0], [*ys, 0]], stop),
    )


JOINS = {
    "mixture": st.just(MIXED),
    "mixed_streams": mixing_streams(),
    "zip": st.just(ZIP),
    "concatenate": st.just(CONCATENATE),
    "choose_from_datasets": choosing(),
    "sample_from_datasets": sampling(),
}
