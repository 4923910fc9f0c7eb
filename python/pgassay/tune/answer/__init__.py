"""What a user reads of a tune: verdicts and ranks, sentences, scripts, settings, what a fix costs later."""
