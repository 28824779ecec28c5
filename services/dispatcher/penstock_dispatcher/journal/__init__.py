"""The dispatcher's journal: its facts on disk, and its state again after a restart.

Read `journal` first: facts go in, and what depends on them waits until they are written. A thread
(`writer`) does so, many facts in one transaction, in an SQLite file (`store`). There are two kinds
of rows: facts, and now and then a snapshot of the state, which lets all facts before it be
deleted. `snapshot` knows what the next one must write anew, `encoding` how things look as bytes,
`wal_check` what a process that was killed leaves behind, `folder_check` whether the folder is
still the same, and `lock` keeps a folder to one process.
"""

from penstock_dispatcher.journal.journal import (
    DurableJournal,
    Journal,
    Listener,
    open_journal,
)

__all__ = ["DurableJournal", "Journal", "Listener", "open_journal"]
