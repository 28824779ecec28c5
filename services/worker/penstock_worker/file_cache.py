"""The cache of remote files on this host's disk: made for the runners, read for statistics."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from penstock.runtime.settings import to_env
from penstock.storage.cache_folder import CacheFolder, FileCacheSettings
from penstock.storage.cache_index import CacheTotals
from penstock_worker.config import WorkerConfig
from penstock_worker.runner import landlock
from penstock_worker.runner.confinement import Confinement

if sys.platform != "win32":
    import pwd


def with_file_cache(confinement: Confinement, config: WorkerConfig) -> Confinement:
    """Return *confinement* for runners that use the cache that *config* names, if it names one.

    Raises:
        ConfigError: when the user of the runners cannot write to the folder.
    """
    settings, files = FileCacheSettings(), confinement.files
    if (folder := _folder(config)) is not None:
        folder.prepare()
        settings = FileCacheSettings(folder.given, config.file_cache_bytes)
        if files.read_only:
            files = files._replace(writable=(*files.writable, str(folder.path)))
            landlock.check(files)
    return confinement._replace(files=files, added=tuple(to_env(settings).items()))


def totals(config: WorkerConfig) -> CacheTotals | None:
    """Return how full the cache is that *config* names, if it names one."""
    folder = _folder(config)
    return None if folder is None else folder.totals()


def _folder(config: WorkerConfig) -> CacheFolder | None:
    if config.file_cache_dir is None:
        return None
    user = config.runner_user
    uid = os.geteuid() if user is None else pwd.getpwnam(user).pw_uid
    return CacheFolder(str(Path(config.file_cache_dir).expanduser().absolute()), uid)
