"""The cluster that a process was launched in: its role and index, and the addresses of the others.

`cluster` has the result and the parts that all systems share. `tf_config`, `cluster_spec`, `slurm`,
`launchers` (torchrun, JAX, MPI, Kubernetes) and `own_variables` read the variables of each system.
`detect` asks all of them.
"""
