#include "hostccl/net/address.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>

#include "hostccl/net/bytes.h"

namespace hostccl::net {

Address Address::from(const sockaddr* address) {
  Address made;
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof(in));
    made.family_ = 4;
    made.port_ = ntohs(in.sin_port);
    std::memcpy(made.ip_.data(), &in.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, address, sizeof(in));
    made.family_ = 6;
    made.port_ = ntohs(in.sin6_port);
    std::memcpy(made.ip_.data(), &in.sin6_addr, 16);
    if (IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr)) made.scope_ = in.sin6_scope_id;
  }
  return made;
}

// family, 0, port (2), scope (4), address (16)
Address::Encoded Address::encode() const {
  Encoded out{};
  out[0] = family_;
  std::memcpy(&out[2], &port_, sizeof(port_));
  std::memcpy(&out[4], &scope_, sizeof(scope_));
  std::copy(ip_.begin(), ip_.end(), out.begin() + 8);
  return out;
}

pycomms::Result<Address> Address::decode(std::span<const uint8_t, kBytes> bytes) {
  Address made;
  made.family_ = bytes[0];
  std::memcpy(&made.port_, &bytes[2], sizeof(made.port_));
  std::memcpy(&made.scope_, &bytes[4], sizeof(made.scope_));
  std::copy(bytes.begin() + 8, bytes.end(), made.ip_.begin());
  if (made == Address()) return made;
  const bool v4_is_clean = std::all_of(made.ip_.begin() + 4, made.ip_.end(), [](uint8_t byte) { return byte == 0; });
  if (bytes[1] != 0 || (made.family_ != 4 && made.family_ != 6) || (made.family_ == 4 && !v4_is_clean)) {
    return pycomms::Status(pycomms::Code::kInvalidArgument, "not an address of this library: its first byte is " +
                                                                std::to_string(bytes[0]) + ", expected 4 or 6");
  }
  return made;
}

Address Address::with_port(uint16_t port) const {
  Address made = *this;
  made.port_ = port;
  return made;
}

bool Address::is_loopback() const {
  constexpr std::array<uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family_ == 4 ? ip_[0] == 127 : ip_ == kLoopback6;
}

bool Address::is_link_local() const {
  return family_ == 4 ? ip_[0] == 169 && ip_[1] == 254 : ip_[0] == 0xfe && (ip_[1] & 0xc0) == 0x80;
}

SocketAddress Address::to_socket_address(uint32_t own_scope) const {
  SocketAddress out;
  if (family_ == 4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port_);
    std::memcpy(&in.sin_addr, ip_.data(), 4);
    std::memcpy(&out.storage, &in, sizeof(in));
    out.length = sizeof(in);
  } else if (family_ == 6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port_);
    std::memcpy(&in.sin6_addr, ip_.data(), 16);
    if (is_link_local()) in.sin6_scope_id = own_scope != 0 ? own_scope : scope_;
    std::memcpy(&out.storage, &in, sizeof(in));
    out.length = sizeof(in);
  }
  return out;
}

std::string Address::to_text() const {
  if (is_none()) return "no address";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family(), ip_.data(), text, sizeof(text));
  const std::string port = ":" + std::to_string(port_);
  if (family_ == 4) return text + port;
  char name[IF_NAMESIZE];
  std::string scope;
  if (scope_ != 0) scope = "%" + (if_indextoname(scope_, name) != nullptr ? std::string(name) : std::to_string(scope_));
  return "[" + std::string(text) + scope + "]" + port;
}

}  // namespace hostccl::net
