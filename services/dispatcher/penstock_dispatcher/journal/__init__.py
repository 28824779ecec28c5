"""The dispatcher's journal: its facts on disk, and its books again after a restart.

Read `journal` first: facts go in, and what depends on them waits until they are written. A thread
(`writer`) does so, many facts in one transaction, in an SQLite file (`store`). There are two kinds
of rows: facts, and now and then a snapshot of the books, which lets all facts before it be
forgotten. `changes` knows what a snapshot must write anew, `forms` how things look as bytes,
`wal` what a process that was killed leaves behind, and `lock` keeps a folder to one process.
"""

from penstock_dispatcher.journal.journal import (
    DurableJournal,
    Journal,
    Listener,
    NullJournal,
    open_journal,
)

__all__ = ["DurableJournal", "Journal", "Listener", "NullJournal", "open_journal"]
