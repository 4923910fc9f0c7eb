"""What stands beside the verdicts on arms: effects of factors, ratios of statements, published claims."""
