"""Issue 7, item 4: kubectl's own completion asks `kubectl_complete-tandem`, for every shell that kubectl knows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.cache import cache_dir
from tandem_autoscaler.cli.complete import Directive, offered
from tandem_autoscaler.cli.main import parser
from tests.cli.services import service
from tests.cli.stub_cluster import StubCluster


def words(*typed: str) -> list[str]:
    """Candidates without their descriptions."""
    found, directive = offered(parser(), typed)
    assert directive is Directive.NO_FILES
    return [one.partition("\t")[0] for one in found]


def test_commands_with_what_they_do() -> None:
    found, _ = offered(parser(), [""])
    assert [one.partition("\t")[0] for one in found] == [
        "status", "explain", "diagnose", "pause", "resume", "size", "replay",
    ]  # fmt: skip
    assert all(one.partition("\t")[2] for one in found)
    assert words("st") == ["status"]
    assert words("--context", "somewhere", "st") == ["status"]


def test_flags_that_were_not_given_yet() -> None:
    assert words("status", "--k") == ["--kubeconfig"]
    assert "--output" in words("status", "-") and "--output" not in words("status", "-o", "json", "-")


def test_values_of_flags() -> None:
    assert words("status", "-o", "") == ["table", "json", "yaml"]
    assert words("status", "--output=j") == ["--output=json"]
    assert "H100" in words("size", "--gpu", "H10")
    assert words("size", "--quantization", "a") == ["awq"]
    assert "azure-conv-2023" in words("replay", "--trace", "azure")
    assert words("replay", "--policies", "tandem,hp") == ["tandem,hpa"]


def test_files_are_the_shells_own_matter() -> None:
    for typed in (["size", "-f", ""], ["replay", "--plot", "x"], ["status", "--kubeconfig", ""]):
        assert offered(parser(), typed) == ([], Directive.FILES)


def test_services_namespaces_and_contexts_come_from_the_cluster(stub: StubCluster) -> None:
    stub.add_service(service("code"))
    stub.add_service(service("chat", "ml"))
    stub.add("/api/v1/namespaces/ml", {"metadata": {"name": "ml"}})
    assert words("status", "") == ["chat", "code"]
    assert words("explain", "-n", "ml", "c") == ["chat"]
    assert words("status", "chat", "") == [], "one name is enough"
    assert words("--context", "") == ["elsewhere", "here"]
    assert words("status", "-n", "") == ["ml"]


def script(*typed: str, **environment: str) -> str:
    program = "from tandem_autoscaler.cli.complete import script; script()"
    done = subprocess.run(
        [sys.executable, "-c", program, *typed], capture_output=True, text=True, timeout=60,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


def test_a_cluster_that_does_not_answer_offers_nothing_and_says_nothing(stub: StubCluster) -> None:
    stub.refuse["/apis/tandem.dev"] = 403
    assert script("status", "", KUBECONFIG=os.environ["KUBECONFIG"]) == ":4\n"
    assert script("status", "", KUBECONFIG="/no/such/file") == ":4\n"


KUBECTL = cache_dir() / "bin" / "current" / "kubectl"


@pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl is not built yet: `make test` builds it")
def test_kubectl_itself_offers_them(stub: StubCluster, tmp_path: Path) -> None:
    """`kubectl __complete` is what its scripts for bash, zsh, fish and PowerShell run."""
    for name, module in (("kubectl-tandem", "main"), ("kubectl_complete-tandem", "complete")):
        plugin = tmp_path / name
        plugin.write_text(
            f"#!{sys.executable}\nfrom tandem_autoscaler.cli.{module} import script\nscript()\n"
        )
        plugin.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    def completed(*typed: str) -> list[str]:
        done = subprocess.run(
            [KUBECTL, "__complete", "tandem", *typed], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PATH": path},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    assert completed("sta") == ["status", ":4"]
    assert completed("status", "") == ["chat", ":4"]
    assert completed("status", "-o", "") == ["table", "json", "yaml", ":4"]
