"""From complete blocks to verdicts: metrics, families, the twin, sentences, warnings. Pure."""
