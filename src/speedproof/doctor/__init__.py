"""Is this machine's compile stack healthy? A probe in the project's interpreter, pure checks, and text."""

from .checks import Check, assess
from .command import diagnose, render

__all__ = ["Check", "assess", "diagnose", "render"]
