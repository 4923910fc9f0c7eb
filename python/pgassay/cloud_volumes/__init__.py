"""Cloud volumes: the catalogue, what a volume gives in closed form, its price, fitting one of your own."""
