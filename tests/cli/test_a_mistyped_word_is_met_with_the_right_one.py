"""One line, exit status 2, and what was probably meant; for commands, flags, values, services and contexts alike."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from tandem_autoscaler.cli import output
from tandem_autoscaler.cli.main import main, parser
from tests.cli.conftest import Run
from tests.cli.services import service
from tests.cli.stub_cluster import StubCluster


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard error of a command line that is refused, by argparse or by the command."""
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    captured = capsys.readouterr()
    assert status == 2 and captured.out == "" and captured.err.count("\n") == 1, captured
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["statu"], "there is no command statu; did you mean status?"),
        (["destroy"], "there is no command destroy ("),
        (["status", "chta"], "no InferenceService chta in namespace default; did you mean chat?"),
        (["status", "--contxt", "here"], "there is no flag --contxt; did you mean --context?"),
        (["status", "--kubeconf=x"], "there is no flag --kubeconf; did you mean --kubeconfig?"),
        (["status", "-o", "yml"], "yml is none of table, json, yaml; did you mean yaml?"),
        (["status", "--context", "elsewere"], "did you mean elsewhere?"),
        (["status", "--context", "xyz"], "there are elsewhere, here"),
        (["size", "--model", "llama-3.1-8b", "--quantization", "ftp8"], "did you mean fp8?"),
        (["explain", "chat", "code"], "code is one name too many"),
        (["explain"], "NAME"),
        (["diagnose", "chat", "--for", "2h"], "2h is not between 0 and 10 minutes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_says_what_was_meant(
    stub: StubCluster, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in told(capsys, *arguments)


def test_the_cluster_may_be_named_before_the_command_and_behind_it(
    stub: StubCluster, said: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.add_service(service("code", "ml"))
    kubeconfig = str(stub.kubeconfig(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")
    for arguments in (
        ("--kubeconfig", kubeconfig, "--context", "here", "-n", "ml", "status"),
        ("status", "--kubeconfig", kubeconfig, "--context", "here", "-n", "ml"),
        ("--context", "elsewhere", "status", "--kubeconfig", kubeconfig, "--context", "here", "-n", "ml"),
    ):
        monkeypatch.setenv("KUBECONFIG", "/no/such/file")
        assert "code" in said(*arguments) and "chat" not in said(*arguments)


@pytest.mark.parametrize("flag", ["--context", "--kubeconfig", "--namespace"])
def test_a_cluster_for_a_command_that_asks_none_is_a_mistake_and_not_ignored(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert f"{flag} names a cluster, and size asks none" in told(
        capsys, flag, "x", "size", "--model", "llama-3.1-8b"
    )


def test_without_a_command_it_tells_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "what serves, and whether the promises are kept" in capsys.readouterr().out


def test_every_command_that_reads_has_the_same_three_outputs() -> None:
    for word, command in parser().commands.items():
        offered = {option for action in command.offered for option in action.option_strings}
        assert ("--output" in offered) == (word not in ("pause", "resume")), word
        asks = command.get_default("asks_cluster")
        assert {"--kubeconfig", "--namespace"} <= offered or not asks, word


@pytest.mark.parametrize("columns", [80, 160])
def test_long_names_cost_no_other_column(
    stub: StubCluster, said: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    stub.add_service(service("a-service-with-quite-a-long-name-indeed"))
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in (("status",), ("status", "-A")):
        lines = said(*arguments).splitlines()
        assert max(map(len, lines)) <= columns and not any("…" in line for line in lines)
        assert sum("720ms/1s" in line and "Scaling" in line for line in lines) == 2


def test_in_a_pipe_no_line_is_broken(stub: StubCluster, said: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    message = "decode 3 -> 4: " + "a sentence that is longer than a terminal is wide " * 5
    stub.add_service(
        service(autoscaling={"roles": {"decode": {"role": "decode", "from": 3, "to": 4, "message": message}}})
    )
    assert message.partition(": ")[2].strip() in said("explain", "chat")


def test_a_terminal_keeps_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.stdout", Terminal())
    made = output.console()
    assert isinstance(made, Console) and made.width < 1000
