#include "hostccl/net/config.h"

#include <charconv>

namespace hostccl::net {

pycomms::Result<Config> Config::from_environment(const std::function<const char*(const char*)>& get) {
  auto text = [&get](const char* name) {
    const char* value = get(name);
    return std::string(value == nullptr ? "" : value);
  };
  Config config;
  config.interfaces.names = text("PYCOMMS_SOCKET_IFNAME");
  config.host_id = text("PYCOMMS_HOST_ID");
  const std::string family = text("PYCOMMS_SOCKET_FAMILY");
  if (family == "4" || family == "6") {
    config.interfaces.family = family[0] - '0';
  } else if (!family.empty()) {
    return pycomms::Status(pycomms::Code::kInvalidArgument,
                           "PYCOMMS_SOCKET_FAMILY is '" + family + "', expected 4, 6 or nothing");
  }
  if (const std::string by_hosts = text("PYCOMMS_REDUCE_BY_HOSTS"); !by_hosts.empty()) {
    if (by_hosts != "0" && by_hosts != "1") {
      return pycomms::Status(pycomms::Code::kInvalidArgument,
                             "PYCOMMS_REDUCE_BY_HOSTS is '" + by_hosts + "', expected 0 or 1");
    }
    config.reduce_by_hosts = by_hosts == "1";
  }
  if (const std::string seconds = text("PYCOMMS_HOST_TIMEOUT"); !seconds.empty()) {
    double value = 0;
    const auto [end, error] = std::from_chars(seconds.data(), seconds.data() + seconds.size(), value);
    constexpr double kLongest = 86400;
    if (error != std::errc() || end != seconds.data() + seconds.size() || !(value >= 0.1 && value <= kLongest)) {
      return pycomms::Status(pycomms::Code::kInvalidArgument,
                             "PYCOMMS_HOST_TIMEOUT is '" + seconds + "', expected seconds, from 0.1 to 86400");
    }
    config.host_timeout_ns = static_cast<int64_t>(value * static_cast<double>(pycomms::kSecond));
  }
  return config;
}

}  // namespace hostccl::net
