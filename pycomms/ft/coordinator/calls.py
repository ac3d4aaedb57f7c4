"""What a call to a coordinator looks like: the same for agents, which use asyncio, and for workers, which use threads.

grpc is imported when it is needed: a worker with an agent never does.
"""

from __future__ import annotations

from typing import Any

from pycomms.ft.coordinator.tls import Tls
from pycomms.ft.core.timeouts import Timeouts
from pycomms.ft.wire.framing import LIMIT

ATTACH = "/pycomms.ft.Coordinator/Attach"
"""A stream of envelopes in both directions, one per host, begun with Hello and Welcome."""


def options(timeouts: Timeouts) -> list[tuple[str, int]]:
    """Of both sides. A connection on which nothing comes back is ended within host_silence."""
    silence = int(timeouts.host_silence.total_seconds() * 1000)
    return [
        ("grpc.max_receive_message_length", LIMIT),
        ("grpc.max_send_message_length", LIMIT),
        ("grpc.keepalive_time_ms", max(silence // 2, 100)),
        ("grpc.keepalive_timeout_ms", max(silence // 2, 100)),
        ("grpc.http2.max_pings_without_data", 0),
        # A ping of another kind, of a minute, would stand in the way of those of the keepalive.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.ping_timeout_ms", max(silence // 2, 100)),
        # Each connection stands on its own: no other channel of the process shares its pauses between tries.
        ("grpc.use_local_subchannel_pool", 1),
        # To connect takes no longer than that either, for whoever is frozen still accepts.
        ("grpc.min_reconnect_backoff_ms", max(silence, 100)),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]


def channel(module: Any, target: str, timeouts: Timeouts, tls: Tls | None) -> Any:
    """module: ``grpc`` or ``grpc.aio``. A channel for one connection: who loses it makes another."""
    if tls is None:
        return module.insecure_channel(target, options=options(timeouts))
    return module.secure_channel(target, _credentials(tls), options=options(timeouts))


def attach(channel: Any) -> Any:
    """The method of that channel, from bytes to bytes."""
    return channel.stream_stream(ATTACH, request_serializer=None, response_deserializer=None)


def _credentials(tls: Tls) -> Any:
    import grpc

    return grpc.ssl_channel_credentials(
        root_certificates=tls.ca.read_bytes() if tls.ca else None,
        private_key=tls.key.read_bytes() if tls.key else None,
        certificate_chain=tls.cert.read_bytes() if tls.cert else None,
    )
