"""Which commit of many made a difference: evidence, posterior, choice of what is measured next."""
