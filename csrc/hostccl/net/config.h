// The user's settings of the network, read from the environment once. Plain data; any thread.
// Must not know: what they lead to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/net/interfaces.h"

namespace hostccl::net {

struct Config {
  InterfaceRule interfaces;  // PYCOMMS_SOCKET_IFNAME, PYCOMMS_SOCKET_FAMILY
  // PYCOMMS_HOST_TIMEOUT, in seconds there: a host that has not acknowledged anything for so long is gone.
  int64_t host_timeout_ns = 2 * pycomms::kSecond;
  // PYCOMMS_REDUCE_BY_HOSTS: the ranks of a host reduce among themselves first. The same on all ranks.
  bool reduce_by_hosts = true;
  std::string host_id;  // PYCOMMS_HOST_ID: pretends to be another host than the neighbours; empty: the real one

  // `get`: getenv, or what stands for it.
  static pycomms::Result<Config> from_environment(const std::function<const char*(const char*)>& get);
};

}  // namespace hostccl::net
