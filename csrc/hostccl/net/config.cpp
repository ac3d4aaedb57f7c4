#include "hostccl/net/config.h"

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
  return config;
}

}  // namespace hostccl::net
