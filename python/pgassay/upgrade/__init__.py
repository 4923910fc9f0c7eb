"""`pgassay upgrade`: what another major version does to a server, found on copies.

`catalogs` reads the server, `scratch` is an empty server of the new version, `both` runs the statements on
copies in either, `fixes` looks for what helps the slower ones, `run` is the way, `answer` what it comes to.
"""
