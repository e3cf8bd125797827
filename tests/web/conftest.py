"""One server for all that ask it on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.web.serving import serving


@pytest.fixture(autouse=True)
def no_network() -> None:
    """A server of our own is asked, on this machine."""


@pytest.fixture(scope="session")
def alone(cache_of_tables: str) -> Iterator[None]:
    """Servers that read no preferences of who runs the tests, and keep tables where other tests do."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GPUFLEET_CONFIG", "")
        patched.setenv("GPUFLEET_CACHE", cache_of_tables)
        yield


@pytest.fixture(scope="session")
def client(alone: None) -> Iterator[httpx.Client]:
    """Who asks a server that wants no token."""
    with serving() as asking:
        yield asking
