"""Who may come in: requests to this machine under its own name, and answers that load nothing from elsewhere."""

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class Gate:
    """Refuse names that are not this machine's, which a rebound name of another site would be, and other origins."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        headers = HTTPConnection(scope).headers
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.partition(":")[0] not in NAMES:
            refusal = JSONResponse(
                {"error": "This page answers to 127.0.0.1 and localhost only; open it by one of these."}, 421
            )
            await refusal(scope, receive, send_with_headers)
        elif origin is not None and origin != f"http://{host}":
            refusal = JSONResponse({"error": "Requests from other pages are not answered."}, 403)
            await refusal(scope, receive, send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)
