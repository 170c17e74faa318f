"""What runs inside the user's process: launch the script, watch its loop, switch arms, time steps, say so.

Standard library and torch only. Nothing here may change what the script computes in its eager steps.
"""
