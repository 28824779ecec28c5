"""Values to pad arrays with: does a dtype hold them?"""

from __future__ import annotations

from typing import Any

import numpy as np


def pad_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return *value* as a scalar of *dtype*, to pad with; None if *dtype* cannot hold it.

    An integer stays the same number. A fraction is rounded to the precision of *dtype*, if that has
    fractions, and a finite one stays finite.
    """
    number = value.item() if isinstance(value, np.generic) else value
    is_complex = isinstance(number, complex)
    if not isinstance(number, (bool, int, float, complex)) or (is_complex and dtype.kind != "c"):
        return None
    try:
        with np.errstate(all="ignore"):
            made = np.asarray(number).astype(dtype)[()]
        # As Python's numbers: NumPy would convert the other one to the dtype before it compares.
        if dtype.kind in "bium":
            whole = int(made.astype(np.int64) if dtype.kind == "m" else made)
            return made if whole == number else None
        back = complex(made)
    except (TypeError, ValueError, OverflowError):
        return None
    if isinstance(number, int):
        return made if back == number else None
    return made if np.isfinite(back) or not np.isfinite(number) else None
