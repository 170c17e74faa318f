"""Which arms, in which order, when to stop. Pure: what is known in, a decision out; no process, no clock."""
