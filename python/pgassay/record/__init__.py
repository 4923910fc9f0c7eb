"""The on-disk contract of an experiment's folder: layout, versions, atomic writes, reading."""
