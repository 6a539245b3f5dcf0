"""SGLang's server with the gate as its outermost middleware: `python -m tandem_worker.sglang_server FLAGS`.

SGLang has no flag for a middleware, but its app is a module's, and one process serves it (with one tokenizer worker).
What is left of this is what `python -m sglang.launch_server` does (0.5.23), so that the process stays process 1 of its
container and gets the signals itself.
"""

import os
import sys


def main() -> None:
    """Serve until a signal ends it."""
    from sglang.launch_server import run_server
    from sglang.srt.entrypoints import http_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    from tandem_worker.gate import Gate

    load_plugins()
    arguments = prepare_server_args(sys.argv[1:])
    http_server.app.add_middleware(Gate)
    try:
        run_server(arguments)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


# Its scheduler and detokenizer are started by `spawn`, which imports this module again.
if __name__ == "__main__":
    main()
