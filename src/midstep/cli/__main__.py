"""`python -m midstep.cli`, where the console script is not on the path."""

import sys

from midstep.cli.main import main

sys.exit(main())
