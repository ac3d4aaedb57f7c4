"""The tests' own half imports grpc before a link does, which would see to this by itself."""

from __future__ import annotations

from pycomms._config import keep_grpc_out_of_forks

keep_grpc_out_of_forks()
