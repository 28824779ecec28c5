"""PyTorch's DataLoader, for `bench_peers.py`: two worker processes that stay."""

from __future__ import annotations

from typing import Any

import jobs
from answering import answer
from torch.utils.data import DataLoader, Dataset


class _Busy(Dataset):  # type: ignore[misc, type-arg]
    def __len__(self) -> int:
        return jobs.CALLS

    def __getitem__(self, i: int) -> int:
        return jobs.burn(i)


def _loader() -> Any:
    return DataLoader(_Busy(), batch_size=32, num_workers=2, persistent_workers=True)


if __name__ == "__main__":
    answer({jobs.CPU_BOUND: _loader})
