// Which of this machine's network interfaces the other hosts reach us at: the user's choice, or the first that looks as
// if it led somewhere. The decision is a pure function of the list of interfaces; list_interfaces() asks the system.
// Any thread. Must not know: sockets.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "hostccl/net/address.h"

namespace hostccl::net {

struct Interface {
  std::string name;
  bool is_up = false;
  bool is_loopback = false;
  Address address;  // port 0; an interface with several addresses is listed several times
};

struct InterfaceRule {
  // As NCCL_SOCKET_IFNAME: "eth,ib" are prefixes, in order of preference; "=eth0,eth1" names in full; "^docker,lo" all but
  // these prefixes; "^=eth0" all but these names. Empty: the first that is up and is neither loopback nor a bridge of
  // containers or virtual machines, or else loopback.
  std::string names;
  int family = 0;  // 4 or 6; 0: IPv4 rather than IPv6, and that rather than link-local IPv6
};

pycomms::Result<std::vector<Interface>> list_interfaces();
// An error lists what there is.
pycomms::Result<Address> choose_interface(const std::vector<Interface>& all, const InterfaceRule& rule);

}  // namespace hostccl::net
