"""The decisions of the dispatcher: events in; facts and other effects out.

Rule 1. Nothing here awaits, reads a clock, draws a random number or logs.
Rule 2. An event (a call, a heartbeat, a tick) changes no durable state: it is decided into facts.
Rule 3. Only `DispatcherState.apply` changes durable state, by facts. So recovery is replay.
Rule 4. Effects are in order: what depends on a fact comes behind the fact that is to be written.

Read `facts` first, then `state_machine`. `state` (of `records`) is what is durable, `soft_state`
what comes back by itself, `context` both; `notifications` notes who must be told. `jobs` opens
iterations and `restore` does so from a saved state, whose form is `job_state`; `workers` and
`readers` handle heartbeats, behind `admission`. `scheduler` creates and starts tasks,
`rebalancing` moves them, `split_provider` cuts their input, `saves` decides saves. Of coordinated
reads `consumers` decides who is which, and `rounds` the order; their record is `rounds_record`.
Of cached jobs `cache_members` decides what each trainer has had; their record is `cache_record`.
`views` tells workers and readers where things stand, `wait_reasons` what keeps them waiting;
`account` and `stats` count.
"""
