"""The program a session starts: ``PYTHON bootstrap.py SPEC.json``.

The user's environment need not have speedproof installed, and must not see what else the driver's environment
has. So the package is loaded from its folder under its own name, without touching ``sys.path``.
"""

import importlib.util
import os
import sys


def load_package() -> None:
    """Make ``import speedproof`` work in this process from the folder that this file lies in."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location(
        "speedproof", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["speedproof"] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Find our package without installing it in the user's interpreter, then run the session."""
    load_package()
    from speedproof.worker.life import run

    del sys.path[0]  # our own folder; the launcher puts there what ``python`` would
    run(sys.argv[1])


if __name__ == "__main__":
    main()
