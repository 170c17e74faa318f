"""``python -m speedproof``."""

import sys

from .cli import main

sys.exit(main())
