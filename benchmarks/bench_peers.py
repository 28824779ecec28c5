"""How fast is Penstock beside tf.data and its service, PyTorch's DataLoader, Grain and Ray Data?

The same work with the same two cores, in turn, each contestant in its own process and environment.
"""

from __future__ import annotations

from contests import Question, arguments, compared
from measure import show

PEERS = ("tensorflow", "torch", "grain", "ray")


def _plain(title: str, unit: str, row: str, *peers: str, **ours: str) -> Question:
    names = {"tensorflow": "tf.data", "torch": "DataLoader", "grain": "Grain", "ray": "Ray Data"}
    others = tuple((peer, row, names[peer]) for peer in peers)
    mine = ours or {"Penstock": row}
    return Question(
        title,
        unit,
        (*others, *(("penstock", mine[name], name.replace("_", " ")) for name in mine)),
    )


QUESTIONS = (
    _plain(
        "int64 slices → batch(256), in process",
        "elements/s",
        "slices",
        "tensorflow",
        "torch",
        "grain",
    ),
    _plain(
        "int64 slices → shuffle(10,000) → batch(256), in process",
        "elements/s",
        "shuffled slices",
        "tensorflow",
        "torch",
        "grain",
    ),
    Question(
        "range → map in Python, in process",
        "elements/s",
        (
            ("penstock", "map: plain generator", "a plain generator of Python's int"),
            (
                "penstock",
                "map: of NumPy scalars",
                "a plain generator that calls a function of NumPy's int64",
            ),
            ("tensorflow", "map", "tf.data (not in Python: a graph)"),
            ("penstock", "map", "Penstock"),
        ),
    ),
    _plain("range → window(8) → flat_map, in process", "elements/s", "windows", "tensorflow"),
    _plain("scalars from two workers, DYNAMIC", "elements/s", "far scalars", "tensorflow"),
    _plain(
        "scalars → shuffle(10,000), on two workers",
        "elements/s",
        "far shuffled scalars",
        "tensorflow",
    ),
    _plain(
        "scalars from two workers → shuffle(10,000)",
        "elements/s",
        "near shuffled scalars",
        "tensorflow",
    ),
    _plain(
        "whole passes over ten elements from two workers, DYNAMIC",
        "passes/s",
        "far ten elements",
        "tensorflow",
    ),
    Question(
        "arrays of 1 MiB from two workers",
        "elements/s",
        (
            ("tensorflow", "far 1 MiB", "tf.data service"),
            ("torch", "far 1 MiB", "DataLoader(num_workers=2)"),
            ("grain", "far 1 MiB", "Grain, two processes"),
            ("penstock", "far 1 MiB: gRPC", "Penstock, gRPC"),
            ("penstock", "far 1 MiB: TCP", "Penstock, TCP"),
            ("penstock", "far 1 MiB", "Penstock, shared memory"),
        ),
    ),
    Question(
        "batches of 4.8 MB from two workers",
        "batches/s",
        (
            ("tensorflow", "far 4.8 MB", "tf.data service"),
            ("torch", "far 4.8 MB", "DataLoader(num_workers=2)"),
            ("grain", "far 4.8 MB", "Grain, two processes"),
            ("penstock", "far 4.8 MB: gRPC", "Penstock, gRPC"),
            ("penstock", "far 4.8 MB: TCP", "Penstock, TCP"),
            ("penstock", "far 4.8 MB", "Penstock, shared memory"),
        ),
    ),
    Question(
        "JPEG of 224 x 224 → float32 batches of 32",
        "images/s",
        (
            ("torch", "pictures", "DataLoader(num_workers=2), Pillow"),
            ("tensorflow", "pictures", "tf.data service, two workers, its own decoder"),
            ("grain", "pictures", "Grain, two processes, Pillow"),
            ("ray", "pictures", "Ray Data, two processors, Pillow"),
            ("penstock", "pictures", "Penstock, two workers, Pillow"),
            (
                "penstock",
                "pictures: map with processes",
                "Penstock, in process, map with two processes, Pillow",
            ),
        ),
    ),
    Question(
        "a tokeniser in Python → batches of 32",
        "texts/s",
        (
            ("torch", "texts", "DataLoader(num_workers=2)"),
            ("grain", "texts", "Grain, two processes"),
            ("ray", "texts", "Ray Data, two processors"),
            ("penstock", "texts", "Penstock, two workers"),
            ("penstock", "texts: one worker", "Penstock, one worker"),
            (
                "penstock",
                "texts: map with processes",
                "Penstock, in process, map with two processes",
            ),
        ),
    ),
    Question(
        "two workers against one, a tokeniser in Python",
        "texts/s",
        (
            ("penstock", "texts: one worker", "Penstock, one worker"),
            ("penstock", "texts", "Penstock, two workers"),
        ),
    ),
    *(
        Question(
            f"processor time of the reader's process, elements of {size}",
            "s/GB",
            (
                ("tensorflow", f"reader CPU, {size}", "tf.data service"),
                ("torch", f"reader CPU, {size}", "DataLoader(num_workers=2)"),
                ("penstock", f"reader CPU, {size}: gRPC", "Penstock, gRPC"),
                ("penstock", f"reader CPU, {size}: TCP", "Penstock, TCP"),
                ("penstock", f"reader CPU, {size}", "Penstock, shared memory"),
            ),
        )
        for size in ("1 MiB", "4.8 MB")
    ),
    Question(
        "the first element of a new iterator, warm, two workers",
        "ms",
        (
            ("tensorflow", "first element", "tf.data service"),
            ("torch", "first element", "DataLoader(num_workers=2)"),
            ("penstock", "first element", "Penstock"),
        ),
    ),
    Question(
        "the first element from nothing, a dispatcher and two workers start",
        "ms",
        (
            ("tensorflow", "cold: processes", "tf.data service, workers are processes"),
            ("tensorflow", "cold", "tf.data service, all in the reader's process"),
            ("penstock", "cold", "Penstock, LocalCluster(2): all are processes"),
        ),
    ),
)


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    show(question, compared(QUESTIONS, "penstock", PEERS, options), options.json)


if __name__ == "__main__":
    main()
