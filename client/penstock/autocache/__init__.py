"""Keeps the elements of a pipeline at the place where that saves most time.

A *cut* is a place after an operator. `cuts` finds those of a pipeline, and `decision` chooses one
by its costs. `measured` finds the costs in the times of a run, `store_speed` in a trial of the
store. `plan` has what a process knows of a pipeline, and `run` reads a pipeline by its plan.
`for_workers` chooses for a pipeline that workers run.
`checked` makes some elements again.
"""
