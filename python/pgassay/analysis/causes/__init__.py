"""Why a trial was as fast as it was: rules over its account, its device and its processors. Pure."""
