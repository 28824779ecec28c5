"""Saved datasets: files of chunks that others read, and manifests that say which belong to it.

A chunk has consecutive elements. A manifest lists the chunks of one version of a saved dataset; the
next version has all of them and some more. A manifest is written once and never changed.
"""
