// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a keyed MAC for short messages. Whoever shares the key can
// prove it without sending it. Any thread; pure. Must not know: what is authenticated.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "hostccl/net/bytes.h"

namespace hostccl::net {

Bytes16 siphash(const Bytes16& key, std::span<const std::byte> message);

// Another sixteen bytes that only the key's owners can tell: the topic of a communicator from its secret, for example.
inline Bytes16 derive(const Bytes16& key, std::string_view label) {
  return siphash(key, std::as_bytes(std::span(label)));
}

}  // namespace hostccl::net
