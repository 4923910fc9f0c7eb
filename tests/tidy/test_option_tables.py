"""The tables of options and the lists of keys in the documents are those of the commands and the files."""

import option_tables


def test_the_tables_are_current() -> None:
    pages = option_tables.pages()
    assert len(pages) >= 3
    remedy = "run 'python tools/option_tables.py'"
    assert not [path.name for path in pages if option_tables.page(path) != path.read_text("utf-8")], remedy


def test_a_row_has_the_default_and_what_the_documents_say() -> None:
    rows = {line.split(" | ")[0]: line for line in option_tables.table("compare").splitlines()}
    assert rows["| `--max-time`"].startswith("| `--max-time` | `15m` | ")
    assert (
        rows["| `--storage`"]
        == "| `--storage` | `host` | where the data directories are: [storage](storage.md) |"
    )
    assert rows["| `--quiet`"] == "| `--quiet` | off | print nothing while it runs |"
    resumed = option_tables.table("resume")
    assert "| `--blocks` | the experiment's | continue to N blocks in total" in resumed
    assert "`pool = false` is `--no-pool`" in " ".join(option_tables.keys("gate file").split())
