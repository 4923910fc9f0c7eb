"""Reads the facts of the versions at hand anew: `python tests/versions/record.py`.

Needs builds of 16 to 19, and makes facts.json and the tables of docs/versions.md.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "python")]

from pgassay.environment.builds.registry import resolve  # noqa: E402  (its place is known only now)
from versions import facts, page  # noqa: E402


def main() -> None:
    """Do it."""
    found = {major: facts.read(resolve(str(major))) for major in facts.MAJORS}
    facts.FILE.write_text(json.dumps(facts.as_document(found), indent=1) + "\n")
    page.PAGE.write_text(page.with_tables(page.PAGE.read_text(), found))
    print(f"{facts.FILE.name} and {page.PAGE.name}: {', '.join(each.version for each in found.values())}")


if __name__ == "__main__":
    main()
