"""Datasets in TensorFlow: `as_dataset` makes a `tf.data.Dataset` of one.

``pip install "penstock[tensorflow]"``. To import this imports tensorflow.
"""

from penstock.extras import needed

needed("tensorflow", "penstock.tensorflow")

from penstock.tensorflow.reading import as_dataset

__all__ = ["as_dataset"]
