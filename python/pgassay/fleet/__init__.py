"""One experiment on several machines: `agent` answers on each, `spreading` asks them, `cluster` connects.

Every machine runs the whole experiment, so that a lost one leaves no hole and a coordinator has nothing that
its folder lacks. Blocks count in the order in which they were looked at: a late one must not take back what
an earlier look said. That these machines are faster, blocks prove; that others would be, only machines prove.
"""
