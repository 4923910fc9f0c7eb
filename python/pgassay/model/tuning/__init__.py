"""What `pgassay tune` found: the document that `--json` prints and that tune.json keeps."""
