// Sixteen bytes: a key, a topic, a nonce, a MAC, the identity of a host. Any thread; plain data.
#pragma once

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace hostccl::net {

// What goes over the wire is written as it lies in memory.
static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

using Bytes16 = std::array<uint8_t, 16>;

inline pycomms::Result<Bytes16> random_bytes16() {
  Bytes16 bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return pycomms::Status::system("getrandom");
  }
  return bytes;
}

// As digits, two for a byte.
template <size_t N>
std::string to_hex(const std::array<uint8_t, N>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Takes the same time wherever they differ: for MACs.
inline bool equal_in_constant_time(const Bytes16& a, const Bytes16& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace hostccl::net
