"""Looks at a scene, in its own time."""

import msgspec

from penstock.explanation import mesh
from penstock_dispatcher.page.history import History

START = 1_800_000_000.0


def looked(scene, seconds, history=None, first=0):
    """Look at *scene* each second up to *seconds*; return the history and its last moment."""
    history, moment = history or History(), None
    for t in range(first, seconds + 1):
        stats = scene(float(t))
        moment = history.look(stats, mesh.look(msgspec.json.encode(stats)), START + t)
    return history, moment
