// Sixteen bytes that are equal exactly for the processes that can meet over an abstract Unix socket, and so share memory:
// those of one running kernel and one network namespace. Any thread. Must not know: communicators.
#pragma once

#include <string_view>

#include "base/status.h"
#include "hostccl/net/bytes.h"

namespace hostccl::net {

// `pretended`: any text instead, which makes several hosts of one machine; empty: the real one.
pycomms::Result<Bytes16> host_id(std::string_view pretended);

}  // namespace hostccl::net
