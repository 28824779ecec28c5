"""A worker's answers to TensorFlow's own client of tf.data service: elements, one a call.

`pass_reader` reads a pass for such clients, as a reader of this process; `element_service` finds
it.
"""
