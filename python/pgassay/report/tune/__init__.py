"""The answer of `pgassay tune`: terminal, Markdown, a page, and the JSON document for scripts."""
