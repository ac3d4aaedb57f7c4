// Where a process is reached: an IPv4 or IPv6 address with a port, in 24 bytes that are the same on every machine, so
// that it travels inside a unique id. Any thread; plain data. Must not know: how the address was chosen.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace hostccl::net {

// What the socket calls want.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

class Address {
 public:
  static constexpr size_t kBytes = 24;
  using Encoded = std::array<uint8_t, kBytes>;

  Address() = default;  // none
  // Empty when it is neither IPv4 nor IPv6.
  static Address from(const sockaddr* address);
  // Bytes from elsewhere.
  static pycomms::Result<Address> decode(std::span<const uint8_t, kBytes> bytes);
  Encoded encode() const;

  bool is_none() const { return family_ == 0; }
  int family() const { return family_ == 4 ? AF_INET : AF_INET6; }
  uint16_t port() const { return port_; }
  Address with_port(uint16_t port) const;
  bool is_loopback() const;
  bool is_link_local() const;
  // The number of the interface, which only means something on the machine that gave it; 0: none.
  uint32_t scope() const { return scope_; }

  // A link-local address is dialled over the dialler's own interface; `own_scope` 0: over the one in the address.
  SocketAddress to_socket_address(uint32_t own_scope = 0) const;
  std::string to_text() const;  // "10.0.0.1:4000", "[fe80::1%eth0]:4000"

  bool operator==(const Address&) const = default;

 private:
  uint8_t family_ = 0;  // 4, 6 or none
  uint16_t port_ = 0;
  uint32_t scope_ = 0;
  std::array<uint8_t, 16> ip_{};  // in network order; the first four for IPv4
};

}  // namespace hostccl::net
