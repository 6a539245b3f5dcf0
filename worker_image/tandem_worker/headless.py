"""Start vLLM on a node that only computes, where `vllm serve` itself cannot be run (the CPU build).

`python -m vllm.entrypoints.openai.api_server --headless` would start an HTTP server and fail: only the subcommand
heeds the flag, and its command line looks up a distribution that the CPU build does not carry.
"""


def main() -> None:
    """Run until a signal, or until this node's part of the engine ends."""
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    cli_env_setup()
    ServeSubcommand.cmd(make_arg_parser(FlexibleArgumentParser()).parse_args())


if __name__ == "__main__":
    main()
