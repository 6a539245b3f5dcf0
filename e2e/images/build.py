"""Making images with buildah, into an OCI layout that keeps every layer once."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from e2e.cluster import prerequisites
from e2e.cluster.cache import cache_dir, content_key, only_one
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import step
from e2e.images.recipes import (
    DEBIAN_PACKAGES,
    DEBIAN_RELEASE,
    RECIPES,
    ROOT,
    Recipe,
    wheel_sources,
    with_bases,
)

_CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def images_dir() -> Path:
    path = cache_dir() / "images"
    path.mkdir(exist_ok=True)
    return path


def layout_dir() -> Path:
    return images_dir() / "layout"


def manifest_digest(recipe: Recipe) -> str | None:
    """Digest of the image in the layout, where it was made from what its inputs are now."""
    try:
        made = json.loads((images_dir() / f"{recipe.name}.json").read_text())
    except (OSError, ValueError):
        return None
    if made.get("key") != recipe.key():
        return None
    return made["digest"] if blob_path(made["digest"]).exists() else None


def blob_path(digest: str) -> Path:
    return layout_dir() / "blobs" / "sha256" / digest.removeprefix("sha256:")


def build(names: list[str]) -> dict[str, str]:
    """Make what is missing or stale among `names` and their bases; image name -> manifest digest."""
    recipes = with_bases(names)
    made = {r.name: manifest_digest(r) for r in recipes}
    if not all(made.values()):
        prerequisites.require_root("building images")
        prerequisites.install(prerequisites.IMAGES)
        with only_one("images"):
            for recipe in recipes:
                made[recipe.name] = manifest_digest(recipe)
                if made[recipe.name] is None:
                    with step(f"image {recipe.reference}"):
                        made[recipe.name] = _make(recipe)
    return {name: digest for name, digest in made.items() if digest}


def _make(recipe: Recipe) -> str:
    key = recipe.key()
    with tempfile.TemporaryDirectory(dir=images_dir(), prefix="context-") as scratch:
        context = Path(scratch)
        for name, source in recipe.context.items():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, context / name)
        if recipe.wheel:
            (context / "dist").mkdir()
            shutil.copy(wheel(), context / "dist")
        dockerfile = context / "Dockerfile"
        if recipe.dockerfile:
            shutil.copyfile(recipe.dockerfile, dockerfile)
        else:
            _debian(context / "rootfs.tar")
            dockerfile.write_text(
                "FROM scratch\nADD rootfs.tar /\n"
                "ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
            )
        mounts = _mounts(context)
        arguments = [f"--build-arg=BASE={_local(recipe.base)}"] if recipe.base else []
        layers = f"--layers={str(recipe.cached_steps).lower()}"
        options = ["--pull-never", "--network=host", *mounts, *arguments, "-t", recipe.reference]
        _buildah("bud", layers, *options, "-f", str(dockerfile), str(context))
    tag = recipe.tag.replace(":", "-")
    # skopeo, not `buildah push`: only it leaves layers uncompressed in a layout (40 s against 130 s for vLLM,
    # and 0.1 s for an image whose base is there already).
    storage = f"[overlay@{images_dir() / 'storage'}+{images_dir() / 'run'}]"
    _run(
        "skopeo", "copy", "--quiet", "--dest-oci-accept-uncompressed-layers",
        f"containers-storage:{storage}{recipe.reference}", f"oci:{layout_dir()}:{tag}",
    )  # fmt: skip
    index = json.loads((layout_dir() / "index.json").read_text())
    digest = next(
        m["digest"]
        for m in index["manifests"]
        if m.get("annotations", {}).get("org.opencontainers.image.ref.name") == tag
    )
    (images_dir() / f"{recipe.name}.json").write_text(json.dumps({"key": key, "digest": digest}))
    _sweep(index)
    # Untagged images with nothing on them: what former versions left. Steps of the present ones stay.
    _buildah("rmi", "--prune", "--force")
    return str(digest)


def _local(name: str) -> str:
    return RECIPES[name].reference


def _mounts(context: Path) -> list[str]:
    """What a build step needs of this machine: its certificates, pip's settings, uv and its download cache."""
    pip = context / ".pip.conf"
    lines = ["[global]", "disable-pip-version-check = true", "root-user-action = ignore"]
    settings = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url"}
    lines += [f"{key} = {os.environ[name]}" for name, key in settings.items() if os.environ.get(name)]
    mounts = []
    if Path(_CA_BUNDLE).exists():
        lines.append("cert = /run/host-certificates.crt")
        mounts.append(f"--volume={_CA_BUNDLE}:/run/host-certificates.crt:ro")
    pip.write_text("\n".join(lines) + "\n")
    mounts.append(f"--volume={pip}:/etc/pip.conf:ro")
    cache = Path(os.environ.get("UV_CACHE_DIR") or Path.home() / ".cache" / "uv")
    cache.mkdir(parents=True, exist_ok=True)
    mounts += [f"--volume={uv()}:/usr/local/bin/uv:ro", f"--volume={cache}:/run/uv-cache"]
    return mounts


def _buildah(*arguments: str) -> None:
    """Run buildah on storage of our own."""
    storage = ["--root", str(images_dir() / "storage"), "--runroot", str(images_dir() / "run")]
    _run("buildah", *storage, "--storage-driver", "overlay", *arguments)


def _run(*command: str) -> None:
    """Run a tool of the image trade; the end of what it said is in the error when it fails."""
    env = {**os.environ, "BUILDAH_ISOLATION": "chroot", "BUILDAH_FORMAT": "oci"}
    log = images_dir() / f"{command[0]}.log"
    with log.open("w") as sink:
        done = subprocess.run(
            command, env=env, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    if done.returncode != 0:
        tail = "\n".join(f"    {line[:300]}" for line in log.read_text(errors="replace").splitlines()[-15:])
        raise ClusterError(f"{command[0]} failed; the end of its log:\n{tail}\n  whole log: {log}")


def _debian(target: Path) -> None:
    """A small Debian with Python and an empty virtual environment at /opt/venv."""
    keep_out = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"]
    command = ["mmdebstrap", "--variant=minbase", "--quiet", f"--include={','.join(DEBIAN_PACKAGES)}"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in keep_out]
    command += ['--customize-hook=chroot "$1" python3 -m venv /opt/venv', DEBIAN_RELEASE, str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join(f"    {line}" for line in done.stderr.splitlines()[-10:])
        raise ClusterError(f"mmdebstrap failed:\n{tail}")


def uv() -> Path:
    """The uv program: on PATH, beside this interpreter, or installed into the cache."""
    beside = Path(sys.executable).parent / "uv"
    kept = cache_dir() / "tools" / "bin" / "uv"
    for candidate in (shutil.which("uv"), beside, ROOT / ".venv" / "bin" / "uv", kept):
        if candidate and Path(candidate).exists():
            return Path(candidate).resolve()
    with step("installing uv"):
        subprocess.run([sys.executable, "-m", "venv", str(kept.parents[1])], check=True, capture_output=True)
        done = subprocess.run(
            [str(kept.parent / "pip"), "install", "-q", "uv"], capture_output=True, text=True
        )
    if done.returncode != 0:
        raise ClusterError(f"could not install uv: {done.stderr.strip()}")
    return kept


def wheel() -> Path:
    """Our wheel, built from the repository when its sources changed."""
    sources = wheel_sources()
    key = content_key(files=sources, text=" ".join(str(f.relative_to(ROOT)) for f in sorted(sources)))
    folder = images_dir() / "wheels" / key
    found = list(folder.glob("*.whl"))
    if found:
        return found[0]
    shutil.rmtree(folder.parent, ignore_errors=True)
    command = [str(uv()), "build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "315532800", "UV_NATIVE_TLS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    found = list(folder.glob("*.whl"))
    if done.returncode != 0 or not found:
        tail = "\n".join(f"    {line}" for line in done.stderr.splitlines()[-10:])
        raise ClusterError(f"the wheel could not be built:\n{tail}")
    return found[0]


def _sweep(index: dict[str, Any]) -> None:
    """Drop blobs of the layout that no tag needs any more."""
    kept: set[str] = set()
    for entry in index["manifests"]:
        kept.add(entry["digest"])
        manifest = json.loads(blob_path(entry["digest"]).read_text())
        kept |= {manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])}
    for file in (layout_dir() / "blobs" / "sha256").iterdir():
        if f"sha256:{file.name}" not in kept:
            file.unlink()
