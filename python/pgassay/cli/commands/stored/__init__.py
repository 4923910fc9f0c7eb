"""Commands that read stored experiments and measure nothing."""
