"""The dispatcher's answers to TensorFlow's own client of tf.data service.

`clients` decides: jobs, passes, clients and tasks in TensorFlow's sense. `client_store` keeps them
in a file, and `service` answers calls with what the dispatcher's core knows.
"""
