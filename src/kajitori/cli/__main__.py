"""`python -m kajitori.cli` is `kaji`."""

import sys

from kajitori.cli import main

sys.exit(main())
