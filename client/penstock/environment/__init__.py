"""The cluster that a process was launched in: who it is, among how many, and where the others are.

`cluster` is what is found, and what all systems have in common; each system has a module that reads
its variables: `tf_config`, `cluster_spec`, `torchrun`, `slurm`, `jax`, `mpi`, `kubernetes` and
`own_variables`. `detect` asks them all.
"""
