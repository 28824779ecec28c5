"""Strategies for elements of any nest."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.frames.packing import Point

plain_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)
dtypes = plain_dtypes | hnp.array_dtypes(plain_dtypes, max_size=3)
any_text = st.text(st.characters(), max_size=9)  # surrogates, too
shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


def text_arrays(kind):
    return st.builds(
        lambda shape, texts: np.array([*texts, None], object)[:-1][: np.prod(shape)].reshape(
            shape if np.prod(shape) <= len(texts) else (len(texts),)
        ),
        shapes,
        st.lists(kind, min_size=1, max_size=9),
    )


leaf_kinds = st.one_of(
    dtypes.map(lambda d: hnp.arrays(d, 1).map(lambda array: array[0])),
    dtypes.flatmap(lambda d: shapes.map(lambda shape: hnp.arrays(d, shape))),
    st.tuples(dtypes, st.integers(1, 3)).map(
        lambda pair: hnp.arrays(
            pair[0], hnp.array_shapes(min_dims=pair[1], max_dims=pair[1], min_side=0, max_side=4)
        )
    ),
    st.just(any_text),
    st.just(st.binary(max_size=9)),
    st.just(text_arrays(any_text)),
    st.just(text_arrays(st.binary(max_size=9))),
)
nest_kinds = st.recursive(
    leaf_kinds,
    lambda kinds: st.one_of(
        st.lists(kinds, max_size=3).map(lambda parts: st.tuples(*parts)),
        st.tuples(kinds, kinds).map(lambda parts: st.builds(Point, *parts)),
        st.dictionaries(st.text(st.characters(), max_size=3), kinds, max_size=6).map(
            st.fixed_dictionaries
        ),
    ),
    max_leaves=5,
)
