"""Which images there are, what each is made from, and the key that says when it must be made again."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.cache import content_key
from e2e.cluster.errors import ClusterError

ROOT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).parent
PREVIOUS_RELEASE = ROOT / "e2e" / "scenarios" / "previous_release"


def wheel_sources() -> list[Path]:
    """Every file that ends up in our wheel, or says how it is made."""
    roots = ("crds/tandem_api", "operator/tandem_operator", "autoscaler/tandem_autoscaler")
    files = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE")]
    for root in (*roots, "worker_image/tandem_worker"):
        files += [f for f in (ROOT / root).rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    return [f for f in files if f.exists()]


@dataclass(frozen=True)
class Recipe:
    """One image. `dockerfile` None: made by mmdebstrap instead."""

    name: str
    tag: str
    base: str | None
    dockerfile: Path | None
    context: dict[str, Path]
    """Path inside the build context -> file."""
    wheel: bool = False
    """Our wheel lies in the context as dist/*.whl."""
    cached_steps: bool = True
    """Keep a layer for each step, so that a new wheel redoes only the last ones; not for the heavy image."""
    extra_key: Callable[[], str] = str

    @property
    def reference(self) -> str:
        return f"tandem.local/{self.tag}"

    def inputs(self) -> list[Path]:
        files = [*self.context.values()] + ([self.dockerfile] if self.dockerfile else [])
        missing = [f for f in files if not f.exists()]
        if missing:
            raise ClusterError(f"image {self.name}: {missing[0].relative_to(ROOT)} is missing")
        return files

    def key(self) -> str:
        """Changes with the content of any input, the base's included."""
        text = f"{self.name} {self.extra_key()} " + (RECIPES[self.base].key() if self.base else "")
        if self.wheel:
            # Paths, not only names: a module that moved is another wheel.
            sources = wheel_sources()
            text += content_key(
                files=sources, text=" ".join(str(f.relative_to(ROOT)) for f in sorted(sources))
            )
        return content_key(files=self.inputs(), text=text)


DEBIAN_PACKAGES = ("python3", "python3-venv", "libnuma1", "libgomp1", "ca-certificates")
DEBIAN_RELEASE = "bookworm"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "python",
            "python:3.11",
            base=None,
            dockerfile=None,
            context={},
            extra_key=lambda: f"{DEBIAN_RELEASE} {DEBIAN_PACKAGES} 1",
        ),
        Recipe(
            "vllm-cpu",
            "vllm-cpu:0.32.0",
            base="python",
            dockerfile=_HERE / "vllm-cpu" / "Dockerfile",
            cached_steps=False,
            context={
                "requirements-vllm-cpu.txt": ROOT / "worker_image" / "requirements-vllm-cpu.txt",
                "absent_cuda.py": _HERE / "vllm-cpu" / "absent_cuda.py",
                "fast_start.py": _HERE / "vllm-cpu" / "fast_start.py",
                "tiny_llama.py": _HERE / "vllm-cpu" / "tiny_llama.py",
            },
        ),
        Recipe(
            "worker",
            "worker:dev",
            base="vllm-cpu",
            dockerfile=ROOT / "worker_image" / "Dockerfile",
            context={},
            wheel=True,
        ),
        Recipe(
            "control-plane",
            "control-plane:dev",
            base="python",
            dockerfile=ROOT / "operator" / "Dockerfile",
            context={"requirements/control-plane.txt": ROOT / "requirements" / "control-plane.txt"},
            wheel=True,
        ),
        Recipe(
            # What e2e/scenarios upgrades from; not among the usual ones.
            "previous-release",
            "control-plane:0.0.1",
            base="control-plane",
            dockerfile=PREVIOUS_RELEASE / "Dockerfile",
            context={"code.tar.bz2": PREVIOUS_RELEASE / "code.tar.bz2"},
        ),
        Recipe(
            "router",
            "router:dev",
            base="python",
            dockerfile=ROOT / "router_image" / "Dockerfile",
            context={"router_image/requirements.txt": ROOT / "router_image" / "requirements.txt"},
        ),
    )
}
DEFAULT = ("control-plane", "router", "worker")


def with_bases(names: list[str]) -> list[Recipe]:
    """The recipes of `names` and of all they stand on, bases first."""
    ordered: dict[str, Recipe] = {}

    def add(name: str) -> None:
        if name not in RECIPES:
            raise ClusterError(f"no such image: {name} (known: {', '.join(RECIPES)})")
        recipe = RECIPES[name]
        if recipe.base:
            add(recipe.base)
        ordered.setdefault(name, recipe)

    for name in names:
        add(name)
    return list(ordered.values())
