"""The demo: a small byte-level language model, trained on real text through a local cluster.

`corpus` finds the text and defines the pipeline, `model` is the network, `train` the loop and
its account. Run it with ``python -m penstock_cluster.demo``.
"""
