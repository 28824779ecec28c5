"""The public classes: `dataset.Dataset`, built from nodes of `penstock.ops`, and its iterator.

`sources`, `mixing`, `elementwise` and `regrouping` have the methods of a dataset, by kind.
`iterator` is the iterator that ``iter(dataset)`` returns. `reduce` makes one value of a dataset.
"""
