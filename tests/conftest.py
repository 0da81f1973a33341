"""The stand-in for the Hub, empty for each test; and the settings of the kernels, put back."""

from collections.abc import Iterator

import pytest
from hub_server import TOKEN, HubServer
from huggingface_hub import constants
from huggingface_hub.utils import close_session


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    with HubServer() as running:
        yield running
        close_session()


@pytest.fixture
def logged_in(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """The stand-in under the Hub's own address, and somebody logged in."""
    files = f"{hub.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return hub


@pytest.fixture
def hub(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """The stand-in, empty."""
    # Telemetry would ask the real Hub for a list; a token of this machine is nobody's business.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    server.clear()
    return server


@pytest.fixture
def kernel_settings() -> Iterator[None]:
    """Threads and instruction set are of the process: afterwards they are as they were."""
    from masu.runtime.backends.native import library

    threads, chosen = library.threads(), library.instruction_set()
    yield
    library.set_threads(threads)
    library.use_instruction_set(chosen)
