"""Says all that a script can see of how it was started. No torch."""

import json
import os
import sys

if __name__ == "__main__":
    names = sorted(globals())
    seen = {
        "argv": sys.argv,
        "path": sys.path,
        "name": __name__,
        "file": __file__,
        "spec": None if __spec__ is None else [__spec__.name, __spec__.origin],
        "package": __package__,
        "doc": __doc__,
        "loader": type(__loader__).__name__,
        "cwd": os.getcwd(),
        "main": sys.modules["__main__"].__dict__ is globals(),
        "stdin": sys.stdin.read(),
        "globals": names,
        "builtins": type(__builtins__).__name__,
        "recursion": sys.getrecursionlimit(),
        "flags": list(sys.flags),
        "dont_write_bytecode": sys.dont_write_bytecode,
    }
    print(json.dumps(seen))
