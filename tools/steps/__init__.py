"""The steps of the set-up, one file each. Standard library only."""

import sys

PYTHON_MIN = (3, 11)

# Before any other module of the set-up is read: an older Python could not even parse them all.
if sys.version_info < PYTHON_MIN:
    print(
        f"pgassay needs Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer and this is {sys.version_info[0]}."
        f"{sys.version_info[1]}: install a newer one and type 'make setup PYTHON=python3.12' (or its name).",
        file=sys.stderr,
    )
    sys.exit(2)
