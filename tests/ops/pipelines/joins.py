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


JOINS = {
    "zip": st.just(ZIP),
    "concatenate": st.just(CONCATENATE),
    "choose_from_datasets": choosing(),
    "sample_from_datasets": sampling(),
}
