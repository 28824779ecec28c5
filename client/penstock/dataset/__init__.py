"""What users hold: `dataset.Dataset`, built from nodes of `penstock.ops`, and its iterator.

`sources`, `elementwise` and `regrouping` are the methods of a dataset by kind; `iterator` is what
``iter(dataset)`` gives a training loop, `reduce` what makes one value of a whole dataset.
"""
