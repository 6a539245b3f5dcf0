"""Fixtures of the autoscaler's tests."""

from collections.abc import AsyncIterator

import pytest

from tests.autoscaler.served import Serve, serving


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with serving() as begin:
        yield begin
