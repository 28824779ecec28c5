"""The dispatcher's journal: its facts on disk, and its state again after a restart.

Read `journal` first: facts go in, and effects wait until the facts are written. A thread (`writer`)
writes them, many in one transaction, to an SQLite file (`store`). There are two kinds of rows:
facts, and now and then a snapshot of the state, which lets all facts before it be deleted.
`snapshot` finds the changes that the next snapshot must write, and turns facts and states into
bytes. `row_mac` makes the digests of rows. `wal_check` inspects the log of a process that was
killed. `folder` locks the folder to one process, and checks that it is still the same.
"""

from penstock_dispatcher.journal.journal import (
    DurableJournal,
    Journal,
    Listener,
    open_journal,
)

__all__ = ["DurableJournal", "Journal", "Listener", "open_journal"]
