"""One experiment run by many machines, each a whole one of its own; their records come home and are combined.

A machine runs the same arms in blocks of its own, with its own seed, until it is told to stop. So machines
never differ within a block, a machine that is lost takes nothing from the others, and what comes home are
ordinary experiments: machines/NAME below the folder. Of a grid that is spread by cells a machine runs some
strata, all arms of each, and the anchors, which all machines run.
"""
