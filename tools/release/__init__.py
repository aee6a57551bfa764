"""Releases: the version in every place that names it, the section of the changelog, and the image.

`python -m tools.release --help` lists the steps; CONTRIBUTING.md says when each is done.
"""
