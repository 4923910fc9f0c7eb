"""From a symptom to a remedy proved on a copy: finders, rewrites, checks of equal results, the flow."""
