"""Plans with their work as `pgassay explain` shows them: on the terminal, as Markdown, as a page, as JSON."""
