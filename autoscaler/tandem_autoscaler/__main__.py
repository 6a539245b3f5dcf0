"""`python -m tandem_autoscaler`."""

import sys

from tandem_autoscaler.main import main

if __name__ == "__main__":
    sys.exit(main())
