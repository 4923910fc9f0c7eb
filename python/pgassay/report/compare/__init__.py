"""The report of an experiment: for the terminal, as Markdown, as one page, as JSON. Pure."""
