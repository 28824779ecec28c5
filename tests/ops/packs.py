"""Slow models of packing in plain Python, for tests of `pack`, `token_batches` and `balance`."""

from __future__ import annotations

import numpy as np


def document(number, length):
    """The tokens of a document: each says which document and which place it is of."""
    return {"tokens": np.arange(length, dtype=np.int64) + 1000 * number}


def pieces(lengths, capacity):
    """Each piece of at most *capacity* tokens as (document, start, stop), whole ones first."""
    for number, length in enumerate(lengths):
        for start in range(0, length, capacity):
            yield number, start, min(start + capacity, length)


def best_fit(lengths, capacity, buffer):
    """The packs, as lists of pieces: each looks at all bins, the longest unchanged first."""
    bins, out = [], []

    def free(held):
        return capacity - sum(stop - start for _, start, stop in held)

    for piece in pieces(lengths, capacity):
        number, start, stop = piece
        if stop - start == capacity and lengths[number] > capacity:
            out.append([piece])
            continue
        fits = [held for held in bins if free(held) >= stop - start]
        best = min(fits, key=free, default=[])
        bins = [held for held in bins if held is not best]
        best.append(piece)
        bins.append(best)
        if free(best) == 0:
            out.append(bins.pop())
        elif sum(map(len, bins)) > buffer:
            fullest = min(bins, key=free)
            bins = [held for held in bins if held is not fullest]
            out.append(fullest)
    return out + sorted(bins, key=free)


def first_fit_decreasing(lengths, capacity, buffer):
    out, window = [], []

    def close():
        bins = []
        for piece in sorted(window, key=lambda p: p[1] - p[2]):
            length = piece[2] - piece[1]
            for held in bins:
                if sum(stop - start for _, start, stop in held) + length <= capacity:
                    held.append(piece)
                    break
            else:
                bins.append([piece])
        out.extend(sorted(held) for held in bins)
        window.clear()

    for piece in pieces(lengths, capacity):
        number, start, stop = piece
        if stop - start == capacity and lengths[number] > capacity:
            out.append([piece])
            continue
        window.append(piece)
        if len(window) == buffer:
            close()
    close()
    return out


def concat(lengths, capacity, buffer):  # noqa: ARG001
    out, room = [], 0
    for number, length in enumerate(lengths):
        start = 0
        while start < length:
            if not room:
                out.append([])
                room = capacity
            stop = min(length, start + room)
            out[-1].append((number, start, stop))
            room -= stop - start
            start = stop
    return out


MODELS = {"best_fit": best_fit, "first_fit_decreasing": first_fit_decreasing, "concat": concat}


def token_batches(lengths, most):
    out, room = [], 0
    for number, length in enumerate(lengths):
        if not length:
            continue
        if length > room:
            out.append([])
            room = most
        out[-1].append((number, 0, length))
        room -= length
    return out


def made(held, name="tokens"):
    """The pack that holds these pieces, one token after the other."""
    tokens, segments, positions, stops = [], [], [], [0]
    for segment, (number, start, stop) in enumerate(held):
        for position in range(stop - start):
            tokens.append(1000 * number + start + position)
            segments.append(segment + 1)
            positions.append(position)
        stops.append(len(tokens))
    return {
        name: np.array(tokens, np.int64),
        "segment_ids": np.array(segments, np.int32),
        "positions": np.array(positions, np.int32),
        "cu_seqlens": np.array(stops, np.int32),
    }


def balanced(costs, consumers, window):
    """The numbers of the elements, in the order in which `balance` returns them."""
    out, size = [], window - window % consumers
    for first in range(0, len(costs), size):
        members = sorted(range(first, min(first + size, len(costs))), key=lambda i: (-costs[i], i))
        rounds = [sorted(members[i : i + consumers]) for i in range(0, len(members), consumers)]
        short = [rounds.pop()] if rounds and len(rounds[-1]) < consumers else []
        out += [i for members in [*sorted(rounds), *short] for i in members]
    return out
