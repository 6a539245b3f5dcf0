"""`python -m tandem_worker`: the same as the console script `tandem-worker`."""

import sys

from tandem_worker.cli import main

if __name__ == "__main__":
    sys.exit(main())
