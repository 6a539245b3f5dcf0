"""Kubernetes' RFC 3339 times as Unix seconds and back."""

from datetime import UTC, datetime


def parse_time(text: str | None) -> float | None:
    """Unix seconds of ``2026-01-31T12:00:00Z`` (with or without a fraction); None for nothing or nonsense."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_time(seconds: float) -> str:
    """Whole seconds, as metav1.Time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Microseconds, as metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
