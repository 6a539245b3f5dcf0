"""The cluster's programs, built from their Go modules once per machine.

Each folder below ``go/`` is one module whose go.mod and go.sum pin every dependency. Modules are few because
programs that share dependencies (client-go, apimachinery) compile them once. A binary lands in
``<cache>/bin/<module>-<key>/``, where the key covers go.mod, go.sum, sources, flags and the Go version.
"""

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster.cache import cache_dir, content_key, only_one
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import step

GO_FOLDER = Path(__file__).parent / "go"
KUBERNETES_VERSION = "v1.34.4"
HELM_VERSION = "v3.19.0"
HELM4_VERSION = "v4.3.2"
KEDA_MODULE = "github.com/kedacore/keda/v2"

_VERSION_FLAGS = " ".join(
    ["-s -w"]
    + [
        f"-X k8s.io/component-base/version.{key}={value}"
        for key, value in {
            "gitVersion": KUBERNETES_VERSION,
            "gitMajor": "1",
            "gitMinor": "34",
            "gitTreeState": "clean",
            # The default is a placeholder that kubectl prints as an absurd date.
            "buildDate": "1970-01-01T00:00:00Z",
        }.items()
    ]
)


@dataclass(frozen=True)
class GoModule:
    """One go.mod: binary name -> package path."""

    folder: str
    packages: dict[str, str]
    ldflags: str = "-s -w"
    env: dict[str, str] = field(default_factory=lambda: {"CGO_ENABLED": "0"})


MODULES = (
    GoModule(
        "kubernetes",
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            **{
                name: f"k8s.io/kubernetes/cmd/{name}"
                for name in (
                    "kube-apiserver",
                    "kube-controller-manager",
                    "kube-scheduler",
                    "kubelet",
                    "kube-proxy",
                    "kubectl",
                )
            },
        },
        ldflags=_VERSION_FLAGS,
    ),
    GoModule(
        "tools",
        {
            "coredns": "./coredns",
            "helm": "helm.sh/helm/v3/cmd/helm",
        },
        ldflags=f"-s -w -X helm.sh/helm/v3/internal/version.version={HELM_VERSION}",
    ),
    # The chart is tested with both: many have only one of them.
    GoModule(
        "helm4",
        {"helm4": "helm.sh/helm/v4/cmd/helm"},
        ldflags=f"-s -w -X helm.sh/helm/v4/internal/version.version={HELM4_VERSION}",
    ),
    GoModule("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    GoModule("pause", {"pause": "./"}),
    # Its clients of every cloud make this the dearest build: ten minutes of two cores. Only what needs it asks for it.
    GoModule(
        "keda",
        {
            "keda-operator": f"{KEDA_MODULE}/cmd/operator",
            "keda-adapter": f"{KEDA_MODULE}/cmd/adapter",
        },
    ),
)
ALL = tuple(name for module in MODULES for name in module.packages)


def _go() -> str:
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go", "/usr/lib/go/bin/go"):
        if candidate and Path(candidate).exists():
            return candidate
    raise ClusterError("Go is needed to build the cluster's programs: install Go 1.26 or newer (golang)")


def _module_of(name: str) -> GoModule:
    for module in MODULES:
        if name in module.packages:
            return module
    raise ClusterError(f"no such program: {name} (known: {', '.join(ALL)})")


def _key(module: GoModule, go_version: str) -> str:
    folder = GO_FOLDER / module.folder
    sources = [f for f in folder.iterdir() if f.suffix in {".mod", ".sum", ".go"}]
    return content_key(files=sources, text=f"{go_version} {module.ldflags} {sorted(module.env.items())}")


def _build(module: GoModule, names: list[str], target: Path, go: str) -> None:
    folder = GO_FOLDER / module.folder
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        # One `go build` for all: packages shared by several programs compile once, links run side by side.
        command = [go, "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", module.ldflags]
        command += ["-o", scratch + "/", *(module.packages[name] for name in names)]
        nice = ["nice", "-n", "10"] if shutil.which("nice") else []
        done = subprocess.run(
            nice + command, cwd=folder, env={**os.environ, **module.env}, capture_output=True, text=True
        )
        if done.returncode != 0:
            tail = "\n".join(f"    {line}" for line in done.stderr.splitlines()[-15:])
            raise ClusterError(f"building {', '.join(names)} failed (in {folder}):\n{tail}")
        built = {file.name: file for file in Path(scratch).iterdir()}
        for name in names:
            # Go names a binary after the last element of its path that is no version.
            parts = [p for p in module.packages[name].split("/") if not (p[:1] == "v" and p[1:].isdigit())]
            produced = built[name] if name in built else built[parts[-1]]
            os.replace(produced, target / name)


def ensure(names: list[str] | tuple[str, ...] = ALL, *, quiet: bool = False) -> dict[str, Path]:
    """Paths of the programs `names`, built now where the cache lacks them. Minutes when cold."""
    go = _go()
    version = subprocess.run([go, "version"], capture_output=True, text=True).stdout.strip()
    paths: dict[str, Path] = {}
    for module in _modules(names):
        wanted = [name for name in names if name in module.packages]
        target = cache_dir() / "bin" / f"{module.folder}-{_key(module, version)}"
        if any(not (target / name).exists() for name in wanted):
            with only_one(f"build-{module.folder}"):
                missing = [name for name in wanted if not (target / name).exists()]
                if missing:
                    with step(f"building {', '.join(missing)} from Go modules", quiet=quiet):
                        _build(module, missing, target, go)
        paths.update({name: target / name for name in wanted})
    _link(paths)
    return paths


def sources(folder: str, module: str) -> Path:
    """Where the Go module cache has the files of `module`, in the version that ``go/<folder>/go.mod`` pins."""
    done = subprocess.run(
        [_go(), "mod", "download", "-json", module], cwd=GO_FOLDER / folder, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ClusterError(f"go mod download {module} failed: {done.stderr.strip() or done.stdout.strip()}")
    return Path(json.loads(done.stdout)["Dir"])


def _modules(names: list[str] | tuple[str, ...]) -> list[GoModule]:
    wanted = [_module_of(name) for name in names]
    return [module for module in MODULES if module in wanted]


def on_path() -> Path:
    """Folder of links to the newest build of each program, for PATH."""
    return cache_dir() / "bin" / "current"


def _link(paths: dict[str, Path]) -> None:
    folder = on_path()
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        link = folder / name
        if link.is_symlink() and link.readlink() == path:
            continue
        fresh = folder / f".{name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(path)
        os.replace(fresh, link)
