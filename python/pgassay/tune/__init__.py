"""From a symptom to a remedy that was proved on a copy: finders, rewrites, checks of equal results, the flow."""
