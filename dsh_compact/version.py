"""The release, in its one place: `dshc --version` reads it without importing anything else."""

__version__ = "0.1.0"
