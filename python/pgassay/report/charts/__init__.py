"""The drawings of the pages, one file each, as Vega-Lite specifications. Pure."""
